// SQLite's file system with injected faults: after a number of writes, each further write fails.
// Thread: any.
#pragma once

namespace mobula::internal::tune {

// Makes the faulty file system SQLite's default. Call it once.
void install_faulty_file_system();
// The next `writes` writes succeed; later ones return the SQLite code `code`. Negative: no faults.
void fail_writes_after(int writes, int code);

}  // namespace mobula::internal::tune
