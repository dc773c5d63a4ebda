// What of each device's memory is taken, by all processes of the simulated machine: files in its folder, each
// locked by who made it. The lock belongs to the open file, so it lives as long as any descriptor or mapping
// of it, in whichever process, and not a moment longer. Any thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace simulated_gpu {

enum class Taking : char { memory = 'm', context = 'c', communicator = 'n', import = 'i' };

struct Taken {
  int fd = -1;           // of success
  std::uint64_t id = 0;  // unique on the machine
};

// `place`: settings.h. `size` bytes of what is there, with a file of that size for memory. fd -1 where it has no more.
Taken take(int place, Taking what, std::uint64_t size, std::uint64_t id = 0);
std::uint64_t taken_bytes(int place);
// Whether somebody has memory `id` imported.
bool is_imported(std::uint64_t id);
// Of each process with a context there, what it has made there.
struct TakenBy {
  pid_t process;
  std::uint64_t bytes;
};
std::vector<TakenBy> takers(int place);

// What a descriptor is of; id 0 for anything else.
struct TakenFile {
  std::uint64_t id = 0;
  int place = 0;
  std::uint64_t size = 0;
};
TakenFile file_of(int fd);

}  // namespace simulated_gpu
