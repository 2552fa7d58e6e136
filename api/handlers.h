// SPDX-License-Identifier: Apache-2.0
// The handlers of the routing table, one file per resource. For routes.c.
#ifndef POD_API_HANDLERS_H
#define POD_API_HANDLERS_H

#include "api/http.h"

// root.c, ui.c, service.c, pod.c
void api_root_get(struct api_request *req);
void api_ui_get(struct api_request *req);
void api_ui_sign_in(struct api_request *req);
void api_ui_sign_in_script(struct api_request *req);
void api_ui_redirect(struct api_request *req);
void api_ui_event_get(struct api_request *req);
void api_healthz_get(struct api_request *req);
void api_readyz_get(struct api_request *req);
void api_service_get(struct api_request *req);
void api_pod_get(struct api_request *req);
void api_pod_reset(struct api_request *req);

// contract.c, metrics.c
void api_contract_get(struct api_request *req);
void api_metrics_get(struct api_request *req);

// hosts.c, hosts_post.c, cores.c
void api_hosts_get(struct api_request *req);
void api_host_get(struct api_request *req);
void api_hosts_post(struct api_request *req);
void api_host_delete(struct api_request *req);
void api_host_drain(struct api_request *req);
void api_host_cordon(struct api_request *req);
void api_host_uncordon(struct api_request *req);
void api_host_reconnect(struct api_request *req);
void api_cores_get(struct api_request *req);
void api_core_get(struct api_request *req);

// buffers.c, buffers_post.c
void api_buffers_get(struct api_request *req);
void api_buffers_post_headers(struct api_request *req);
void api_buffers_post(struct api_request *req);
void api_buffer_get(struct api_request *req);
void api_buffer_delete(struct api_request *req);
void api_buffer_copy(struct api_request *req);

// data_get.c, data_put.c, data_kept.c
void api_data_get(struct api_request *req);
void api_data_put_headers(struct api_request *req);
void api_data_put(struct api_request *req);
void api_event_data_get(struct api_request *req);
void api_event_data_delete(struct api_request *req);

// programs.c, loads.c, executions.c
void api_programs_get(struct api_request *req);
void api_programs_post_headers(struct api_request *req);
void api_programs_post(struct api_request *req);
void api_program_get(struct api_request *req);
void api_program_delete(struct api_request *req);
void api_program_shape_get(struct api_request *req);
void api_loads_get(struct api_request *req);
void api_loads_post(struct api_request *req);
void api_load_get(struct api_request *req);
void api_load_delete(struct api_request *req);
void api_executions_post(struct api_request *req);

// feed_get.c, trace.c
void api_feed_get(struct api_request *req);
void api_trace_get(struct api_request *req);

// graphs.c, graphs_post.c, event.c
void api_graphs_get(struct api_request *req);
void api_graphs_post_headers(struct api_request *req);
void api_graphs_post(struct api_request *req);
void api_graph_get(struct api_request *req);
void api_graph_cancel(struct api_request *req);

// events.c, event.c, events_wait.c
void api_events_get(struct api_request *req);
void api_events_summary_get(struct api_request *req);
void api_event_get(struct api_request *req);
void api_event_cancel(struct api_request *req);
void api_event_dependencies_get(struct api_request *req);
void api_events_wait(struct api_request *req);

#endif
