// The page's markup, style and script; @EXPLANATION@ and @HISTORY@ are where the data goes, in that order.
#pragma once

namespace plimsoll::report {

extern const char* const kPageTemplate;

}  // namespace plimsoll::report
