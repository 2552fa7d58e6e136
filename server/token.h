// SPDX-License-Identifier: Apache-2.0
// `podd token add`: makes a token, puts its hash into the token file, and
// prints the token once, alone on a line.
#ifndef POD_SERVER_TOKEN_H
#define POD_SERVER_TOKEN_H

// argv[0] is "token". Returns the exit code: 0, 1 (the file cannot be written),
// or 2 (usage). Messages go to stderr.
int pod_token_main(int argc, const char *const *argv);

#endif
