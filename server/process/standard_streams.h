// Makes standard input, output and error safe to use.
//
// main calls this first, before it opens any descriptor or starts any thread.
#pragma once

namespace hearth {

/// Opens /dev/null for each standard descriptor that is closed. Otherwise the next socket would get the
/// descriptor's number, and the log would be written into a client's connection. Also ignores SIGPIPE, so
/// that the program keeps running when the reader of its log exits (hearthd | head), and SIGXFSZ, so that it
/// keeps running when it reaches a limit on file sizes.
void secure_standard_streams();

}  // namespace hearth
