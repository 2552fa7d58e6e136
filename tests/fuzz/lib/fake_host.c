// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/lib/fake_host.h"

#include <string.h>

#include "pod_worker.pb-c.h"
#include "tpu_service.pb-c.h"

static void fake_host_answer(struct rpc_call *call,
                             const ProtobufCMessage *message)
{
    struct pod_wire_out *out = pod_wire_pack(message);

    fake_rpc_answer(call, POD_OK, out->head, out->size);
    pod_wire_out_free(out);
}

static void fake_host_greet(struct rpc_call *call)
{
    Pod__Worker__V1__HelloResponse hello;
    Pod__Worker__V1__Core core = POD__WORKER__V1__CORE__INIT;
    Pod__Worker__V1__Chip chip = POD__WORKER__V1__CHIP__INIT;
    Pod__Worker__V1__Core *cores[] = {&core};
    Pod__Worker__V1__Chip *chips[] = {&chip};
    static char text[] = "fake";

    pod__worker__v1__hello_response__init(&hello);
    core.memory_bytes = 1 << 20;
    hello.version = 1;
    hello.session = UINT64_C(1) << 63 | 5;
    hello.incarnation = 1;
    hello.worker = hello.platform = hello.platform_version = text;
    hello.accepts = 3;
    hello.host_count = 1;
    hello.chunk_bytes = 8 << 20;
    hello.n_cores = hello.n_chips = 1;
    hello.cores = cores;
    hello.chips = chips;
    fake_host_answer(call, &hello.base);
}

// A stand-alone system of one core.
static void fake_host_describe(struct rpc_call *call)
{
    TpuDriver__QuerySystemInfoResponse response =
        TPU_DRIVER__QUERY_SYSTEM_INFO_RESPONSE__INIT;
    TpuDriver__SystemInfo info = TPU_DRIVER__SYSTEM_INFO__INIT;
    TpuDriver__TpuChipInfo chip = TPU_DRIVER__TPU_CHIP_INFO__INIT;
    TpuDriver__ChipCoordinate coord = TPU_DRIVER__CHIP_COORDINATE__INIT;
    TpuDriver__TpuCoreInfo core = TPU_DRIVER__TPU_CORE_INFO__INIT;
    TpuDriver__CpuInfo cpu = TPU_DRIVER__CPU_INFO__INIT;
    TpuDriver__TpuCoreInfo *cores[] = {&core};
    TpuDriver__TpuChipInfo *chips[] = {&chip};

    core.has_hbm_bytes_available = 1;
    core.hbm_bytes_available = 1 << 20;
    chip.chip_coord = &coord;
    chip.n_core = 1;
    chip.core = cores;
    info.cpu = &cpu;
    info.n_tpu_chip = info.n_local_core = 1;
    info.tpu_chip = chips;
    info.local_core = cores;
    info.has_host_count = 1;
    info.host_count = 1;
    response.system_info = &info;
    fake_host_answer(call, &response.base);
}

static bool fake_host_is(const char *method, const char *name)
{
    return strcmp(strrchr(method, '/') + 1, name) == 0;
}

void fake_host_called(bool plain, const char *method,
                      struct rpc_call *owned_call)
{
    Pod__Worker__V1__HeartbeatResponse beat =
        POD__WORKER__V1__HEARTBEAT_RESPONSE__INIT;
    TpuDriver__OpenResponse opened = TPU_DRIVER__OPEN_RESPONSE__INIT;

    beat.incarnation = 1;
    opened.client_id = FAKE_HOST_CLIENT;
    if (plain && fake_host_is(method, "Hello"))
        fake_rpc_answer(owned_call, POD_UNIMPLEMENTED, NULL, 0);
    else if (fake_host_is(method, "Hello"))
        fake_host_greet(owned_call);
    else if (fake_host_is(method, "QuerySystemInfo"))
        fake_host_describe(owned_call);
    else if (fake_host_is(method, "Open"))
        fake_host_answer(owned_call, &opened.base);
    else if (fake_host_is(method, "Heartbeat"))
        fake_host_answer(owned_call, &beat.base);
    else
        fake_rpc_answer(owned_call, POD_OK, NULL, 0);
}
