// Which of the processes that a launcher (srun, mpiexec, mpirun) has started on many machines this
// one is, as the launcher's environment says. Pure; any thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace mobula::internal::deploy {

// Where it is given by flags; nothing: the launcher says.
struct PlaceFlags {
  std::optional<int> rank{};
  std::optional<int> size{};
  std::optional<int> local_rank{};
  std::string run{};
};

struct Place {
  std::string launcher{};  // for people: "Slurm", "Open MPI", "PMI", "flags", or "none"
  int rank = 0;
  int size = 1;
  int local_rank = 0;                // among those of this machine
  std::string run{};                 // a name that all ranks of this launch have, fit for a folder
  bool unique = false;               // and no other launch had
  std::vector<std::string> hosts{};  // of all ranks, where the launcher names them
};

using Environment = std::function<std::optional<std::string>(const char* name)>;

// Fails with invalid_argument, naming the variable or flag that is missing or wrong.
Result<Place> place_of(const Environment& environment, const PlaceFlags& flags);

// "n[1-3,07],login" -> n1 n2 n3 n07 login, as `scontrol show hostnames`. At most 65,536 names.
Result<std::vector<std::string>> expand_hosts(std::string_view list);

}  // namespace mobula::internal::deploy
