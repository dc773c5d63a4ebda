// The rank of this process among those that a launcher (srun, mpiexec, mpirun) started on many
// machines, from the environment of the launcher.
// Thread: any.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace mobula::internal::deploy {

// Values of flags; empty: from the launcher.
struct PositionFlags {
  std::optional<int> rank{};
  std::optional<int> size{};
  std::optional<int> local_rank{};
  std::string run{};
};

struct LaunchPosition {
  std::string launcher{};  // for display: "Slurm", "Open MPI", "PMI", "flags", or "none"
  int rank = 0;
  int size = 1;
  int local_rank = 0;   // rank on this machine
  std::string run{};    // common name of all ranks of this launch, valid as a directory name
  bool unique = false;  // no other launch had this name
  std::vector<std::string> hosts{};  // hosts of all ranks, if the launcher lists them
};

using Environment = std::function<std::optional<std::string>(const char* name)>;

// Errors: invalid_argument with the missing or invalid variable or flag.
Result<LaunchPosition> position_of(const Environment& environment, const PositionFlags& flags);

// "n[1-3,07],login" -> n1 n2 n3 n07 login, as `scontrol show hostnames`. At most 65,536 names.
Result<std::vector<std::string>> expand_hosts(std::string_view list);

}  // namespace mobula::internal::deploy
