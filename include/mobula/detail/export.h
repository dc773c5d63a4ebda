// Marks what the library exports, so that programs compiled with hidden visibility still share its
// types (exceptions are matched by type) and its one table of functions.
#pragma once

#define MOBULA_API [[gnu::visibility("default")]]
