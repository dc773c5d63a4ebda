#include "faulty_file_system.h"

#include <sqlite3.h>

#include <map>
#include <memory>
#include <mutex>

namespace mobula::internal::tune {
namespace {

struct Faults {
  std::mutex mutex;
  int writes_left = -1;
  int code = SQLITE_OK;
  // Methods with a faulty write, by the original methods.
  std::map<const sqlite3_io_methods*, std::unique_ptr<sqlite3_io_methods>> patched;
  std::map<const sqlite3_io_methods*, const sqlite3_io_methods*> originals;
};

Faults& faults() {
  static Faults one;
  return one;
}

const sqlite3_io_methods* original_of(sqlite3_file* file) {
  const std::scoped_lock lock(faults().mutex);
  return faults().originals.at(file->pMethods);
}

int next_code() {
  const std::scoped_lock lock(faults().mutex);
  if (faults().writes_left < 0) return SQLITE_OK;
  if (faults().writes_left == 0) return faults().code;
  --faults().writes_left;
  return SQLITE_OK;
}

int write(sqlite3_file* file, const void* bytes, int size, sqlite3_int64 offset) {
  if (const int code = next_code(); code != SQLITE_OK) return code;
  return original_of(file)->xWrite(file, bytes, size, offset);
}

sqlite3_vfs* base_system = nullptr;
sqlite3_vfs faulty_system;

int open_file(sqlite3_vfs* /*system*/, const char* name, sqlite3_file* file, int flags, int* out) {
  const int code = base_system->xOpen(base_system, name, file, flags, out);
  if (code != SQLITE_OK || file->pMethods == nullptr) return code;
  const std::scoped_lock lock(faults().mutex);
  auto& patched = faults().patched[file->pMethods];
  if (patched == nullptr) {
    patched = std::make_unique<sqlite3_io_methods>(*file->pMethods);
    patched->xWrite = write;
    faults().originals[patched.get()] = file->pMethods;
  }
  file->pMethods = patched.get();
  return code;
}

}  // namespace

void install_faulty_file_system() {
  if (base_system != nullptr) return;
  base_system = sqlite3_vfs_find(nullptr);
  faulty_system = *base_system;
  faulty_system.zName = "faulty";
  faulty_system.xOpen = open_file;
  sqlite3_vfs_register(&faulty_system, 1);
}

void fail_writes_after(int writes, int code) {
  const std::scoped_lock lock(faults().mutex);
  faults().writes_left = writes;
  faults().code = code;
}

}  // namespace mobula::internal::tune
