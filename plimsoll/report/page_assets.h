// The page's markup, style and script, made of web/ when the project is built. Without esbuild the script is empty.
#pragma once

namespace plimsoll::report {

extern const char* const kPageHead;  // up to and with <body>; the data and the script follow
extern const char* const kPageStyle;
extern const char* const kPageScript;

}  // namespace plimsoll::report
