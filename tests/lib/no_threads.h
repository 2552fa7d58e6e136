// SPDX-License-Identifier: Apache-2.0
// No thread can be had for a while, as at a limit on processes.
#ifndef POD_TESTS_NO_THREADS_H
#define POD_TESTS_NO_THREADS_H

// Until the end nobody in the process can make a thread whose stack has the
// usual size. A pair.
void no_threads_begin(void);
void no_threads_end(void);

#endif
