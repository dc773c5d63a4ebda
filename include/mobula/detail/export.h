// Marks exported symbols, so that programs compiled with hidden visibility share the library's
// types (exceptions are matched by type) and its one registry.
// Thread: any.
#pragma once

#define MOBULA_API [[gnu::visibility("default")]]
