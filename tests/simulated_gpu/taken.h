// Accounting of device memory over all processes of the simulated machine: files in its directory,
// each locked by its creator. The lock belongs to the open file, so it exists exactly as long as a
// descriptor or mapping of the file in any process.
// Thread: any.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace simulated_gpu {

enum class Taking : char { memory = 'm', context = 'c', communicator = 'n', import = 'i' };

struct Taken {
  int fd = -1;           // valid on success
  std::uint64_t id = 0;  // unique on the machine
};

// Accounts `size` bytes on `location` (see `settings.h`), with a file of that size for memory.
// `fd` is -1 if the device has not enough.
Taken take(int location, Taking what, std::uint64_t size, std::uint64_t id = 0);
std::uint64_t taken_bytes(int location);
// True if a process has imported memory `id`.
bool is_imported(std::uint64_t id);
// Bytes allocated on the device by each process with a context there.
struct TakenBy {
  pid_t process;
  std::uint64_t bytes;
};
std::vector<TakenBy> takers(int location);

// Origin of a descriptor; id 0 for other files.
struct TakenFile {
  std::uint64_t id = 0;
  int location = 0;
  std::uint64_t size = 0;
};
TakenFile file_of(int fd);

}  // namespace simulated_gpu
