// Makes standard input, output and error safe to use.
//
// main calls this before it opens a descriptor or starts a thread.
#pragma once

namespace hearth {

/// Opens /dev/null for each standard descriptor that is closed. Otherwise the next socket could get its
/// number, and the log would be written into a client's connection. Also ignores SIGPIPE and SIGXFSZ, so that
/// the program continues when the reader of its log exits (hearthd | head) and when a file reaches a size
/// limit.
void secure_standard_streams();

}  // namespace hearth
