// SPDX-License-Identifier: Apache-2.0
// Views of the engine as JSON, laid out as the API's contract says.
//
// Each function gives a new value, or NULL when there is no memory. Members
// may be added, never renamed or removed.
#ifndef POD_API_VIEW_JSON_H
#define POD_API_VIEW_JSON_H

#include <jansson.h>

#include "core/pod/pod.h"

json_t *api_event_json(const struct pod_event_view *view);
// How an operation ended on each of its hosts.
json_t *api_event_hosts_json(const struct pod_event_host *hosts, size_t count);
json_t *api_buffer_json(const struct pod_buffer_view *view);
json_t *api_program_json(const struct pod_program_view *view);
json_t *api_program_shape_json(const struct pod_program_shape *shape);
json_t *api_load_json(const struct pod_load_view *view);
json_t *api_graph_json(const struct pod_graph_view *view);
json_t *api_host_json(const struct pod_host_view *view);
json_t *api_core_json(const struct pod_core_view *view);
// The media types of the formats in a mask.
json_t *api_formats_json(unsigned accepts);
json_t *api_summary_json(const struct pod_summary *summary);

// The whole pod. `flat` shows it as one host that has all cores.
json_t *api_pod_json(const struct pod_topology_view *view, bool draining,
                     bool flat);
// What to call the pod's state: READY, DEGRADED (some hosts are not up),
// NOT_READY (none is) or DRAINING.
const char *api_pod_state(const struct pod_topology_view *view, bool draining);

// Names of members that `fields` may pick from, ended by NULL.
extern const char *const api_event_fields[];
extern const char *const api_buffer_fields[];
extern const char *const api_program_fields[];
extern const char *const api_load_fields[];
extern const char *const api_graph_fields[];
extern const char *const api_host_fields[];
extern const char *const api_core_fields[];

#endif
