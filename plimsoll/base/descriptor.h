// Where the standard descriptors 0, 1 or 2 are closed, the system gives their numbers to the next file that is opened,
// and text that any code of the process prints ends up in it. So what holds data is opened through keep_apart.
#pragma once

namespace plimsoll {

// The same open file above the standard descriptors and closed on exec; `fd` is closed where it is another one.
// Passes a negative `fd` through, with errno as it was, so that it can stand around open(); -1 with errno when the
// process has no descriptor left.
int keep_apart(int fd);

}  // namespace plimsoll
