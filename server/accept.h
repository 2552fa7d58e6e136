// SPDX-License-Identifier: Apache-2.0
// Accepting connections while descriptors are short.
//
// gRPC never accepts again after accept4 has failed: one moment without
// descriptors, and nobody could connect to the program any more. So this file
// takes the place of the C library's accept4.
#ifndef POD_SERVER_ACCEPT_H
#define POD_SERVER_ACCEPT_H

// From now on, in the whole process, accept4 says EAGAIN for whatever is no
// fault of the listening socket, as accept(2) advises; and who comes when there
// is no descriptor left is closed at once, so that nobody queues who might have
// gone before there is a place. One descriptor is set aside for that. Before
// this is called accept4 is as it always was. Call it once.
void accept_while_short(void);

#endif
