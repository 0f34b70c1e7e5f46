// Makes standard input, output and error safe to use.
//
// Called by main first of all, before any descriptor is opened and before any thread exists.
#pragma once

namespace hearth {

/// Opens /dev/null for each standard descriptor that is closed. Otherwise the next socket would get its
/// number, and the log would be written into a client's connection. Also ignores SIGPIPE, so that the program
/// survives when the reader of its log leaves (hearthd | head), and SIGXFSZ, so that it survives a limit on
/// the size of files.
void secure_standard_streams();

}  // namespace hearth
