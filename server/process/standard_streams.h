// Makes standard input, output and error safe to use.
//
// Called first by main, before any descriptor is opened and before any thread exists.
#pragma once

namespace hearth {

/// Opens /dev/null for each closed standard descriptor. Otherwise the next socket would get its number, and
/// the log would be written into a client's connection. Also ignores SIGPIPE, so that the program survives
/// when the reader of its log exits (hearthd | head), and SIGXFSZ, so that it survives a limit on file sizes.
void secure_standard_streams();

}  // namespace hearth
