// SPDX-License-Identifier: Apache-2.0
// The page that asks for a token, with its script: the only things of /ui/
// that somebody without one may see.
#include <string.h>

#include "api/handlers.h"
#include "api/problem.h"
#include "api/query.h"

static const char sign_in_page[] =
    "<!doctype html>\n"
    "<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n"
    "<meta name=\"color-scheme\" content=\"light dark\">\n"
    "<title>podd: sign in</title>\n"
    "<style>body{font:15px/1.5 system-ui,sans-serif;margin:4rem auto;"
    "max-width:24rem;padding:0 1rem}input,button{font:inherit;padding:.4rem;"
    "width:100%;box-sizing:border-box;margin:.3rem 0}</style>\n"
    "<script src=\"/ui/sign-in.js\" defer></script></head><body>\n"
    "<main><h1>podd</h1>\n"
    "<form id=\"sign-in\"><label for=\"token\">Token</label>\n"
    "<input id=\"token\" type=\"password\" autocomplete=\"current-password\" "
    "required autofocus>\n"
    "<button>Sign in</button></form>\n"
    "<p id=\"fault\" role=\"alert\"></p>\n"
    "<noscript><p>Signing in needs a script. Without one: "
    "curl -H \"Authorization: Bearer $TOKEN\"</p></noscript>\n"
    "</main></body></html>\n";

static const char sign_in_script[] =
    "// SPDX-License-Identifier: Apache-2.0\n"
    "const form = document.getElementById('sign-in');\n"
    "const token = document.getElementById('token');\n"
    "const fault = document.getElementById('fault');\n"
    "form.addEventListener('submit', async (event) => {\n"
    "  event.preventDefault();\n"
    "  fault.textContent = '';\n"
    "  try {\n"
    "    const answer = await fetch('/ui/session', {\n"
    "      method: 'POST',\n"
    "      headers: {'Content-Type': 'application/json'},\n"
    "      body: JSON.stringify({token: token.value.trim()}),\n"
    "    });\n"
    "    if (answer.ok)\n"
    "      location.reload();\n"
    "    else\n"
    "      fault.textContent = (await answer.json()).detail;\n"
    "  } catch (error) {\n"
    "    fault.textContent = String(error);\n"
    "  }\n"
    "});\n";

void api_ui_sign_in(struct api_request *req)
{
    api_header(req, "Content-Security-Policy",
               "default-src 'none'; style-src 'unsafe-inline'; "
               "script-src 'self'; connect-src 'self'; form-action 'none'; "
               "frame-ancestors 'none'; base-uri 'none'");
    api_reply_static(req, 200, "text/html; charset=utf-8", sign_in_page,
                     strlen(sign_in_page));
}

void api_ui_sign_in_script(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;

    if (api_query_end(req, &err) != POD_OK)
        api_problem(req, &err);
    else
        api_reply_static(req, 200, "text/javascript; charset=utf-8",
                         sign_in_script, strlen(sign_in_script));
}
