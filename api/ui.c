// SPDX-License-Identifier: Apache-2.0
// /ui/: the pod on a page that needs no script.
#include <stdlib.h>
#include <string.h>

#include "api/auth.h"
#include "api/common.h"
#include "api/handlers.h"
#include "api/overview.h"
#include "api/query.h"
#include "api/view_json.h"

static const char ui_head[] =
    "<!doctype html>\n"
    "<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n"
    "<meta name=\"color-scheme\" content=\"light dark\">\n"
    "<title>podd</title>\n"
    "<style>body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;"
    "max-width:60rem;padding:0 1rem}pre{overflow-x:auto;line-height:1.35}"
    "nav a{display:inline-block;margin-right:1rem}</style></head><body>\n"
    "<h1>podd</h1>\n"
    "<nav><a href=\"/ui/\">overview</a><a href=\"/v1\">service</a>"
    "<a href=\"/v1/pod\">pod</a><a href=\"/v1/hosts\">hosts</a>"
    "<a href=\"/v1/buffers\">buffers</a>"
    "<a href=\"/v1/programs\">programs</a><a href=\"/v1/loads\">loads</a>"
    "<a href=\"/v1/graphs\">graphs</a>"
    "<a href=\"/v1/events\">events</a></nav>\n<main><pre>";

static const char ui_tail[] = "</pre></main></body></html>\n";

static void ui_escape(const char *text, struct pod_str *out)
{
    for (const char *at = text; *at != '\0'; at++) {
        switch (*at) {
        case '<':
            pod_str_puts(out, "&lt;");
            break;
        case '>':
            pod_str_puts(out, "&gt;");
            break;
        case '&':
            pod_str_puts(out, "&amp;");
            break;
        case '"':
            pod_str_puts(out, "&quot;");
            break;
        default:
            pod_str_append(out, at, 1);
        }
    }
}

// Replies with a page that shows a text as it is.
static void ui_reply(struct api_request *req, const char *text)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_str page = {0};
    pod_str_puts(&page, ui_head);
    ui_escape(text, &page);
    pod_str_puts(&page, ui_tail);
    if (page.failed) {
        (void)api_err_memory(&err);
        api_problem(req, &err);
    } else {
        api_header(req, "Content-Security-Policy",
                   "default-src 'none'; style-src 'unsafe-inline'; "
                   "frame-ancestors 'none'; base-uri 'none'");
        api_reply_text(req, 200, "text/html; charset=utf-8", page.data,
                       page.length);
    }
    pod_str_fini(&page);
}

void api_ui_get(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_str text = {0};
    enum pod_code code = api_query_end(req, &err);
    if (code == POD_OK && !api_may(req, API_SCOPE_READ)) {
        api_ui_sign_in(req);
        return;
    }
    if (code == POD_OK)
        code = api_overview_print(req, &text, &err);
    if (code == POD_OK)
        ui_reply(req, text.data);
    else
        api_problem(req, &err);
    pod_str_fini(&text);
}

void api_ui_redirect(struct api_request *req)
{
    api_header(req, "Location", "/ui/");
    api_reply_empty(req, 308);
}

void api_ui_event_get(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_event_view view = {0};
    uint64_t number = 0;
    if (!api_path_id(req, 0, POD_REF_OP, &number))
        return;
    enum pod_code code = api_query_end(req, &err);
    if (code == POD_OK)
        code = pod_get_event(api_pod(req), number, &view, &err);
    json_t *json = code == POD_OK ? api_event_json(&view) : NULL;
    char *dump = json != NULL ? json_dumps(json, JSON_INDENT(2)) : NULL;
    if (code == POD_OK && dump == NULL)
        code = api_err_memory(&err);
    if (code == POD_OK)
        ui_reply(req, dump);
    else
        api_problem(req, &err);
    free(dump);
    json_decref(json);
    pod_event_view_fini(&view);
}
