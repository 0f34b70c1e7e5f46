// Standard input, output and error as the rest of the program may take them for granted.
//
// Called by main first of all, before any descriptor is opened and any thread exists.
#pragma once

namespace hearth {

/// Puts /dev/null where a standard descriptor is closed: the next socket would get its number, and the log
/// would be written into a client's connection. A reader of the log that has left (hearthd | head) does not
/// end the program: SIGPIPE is ignored from here on. Nor does a limit on the size of files: SIGXFSZ is.
void secure_standard_streams();

}  // namespace hearth
