// The directories of a trial: saved checkpoints appear complete or not at all.
// Thread: any. Errors: unavailable names the path and the fault of the system; resource_exhausted:
// the disk is full.
#pragma once

#include <set>
#include <string>

#include "base/result.h"

namespace mobula::internal::tune {

// Fails on a node that does not see the directory of the experiment: checkpoints there would be
// lost for other nodes. `checkpoints` is its directory of checkpoints.
Result<void> check_shared_storage(const std::string& checkpoints);
// Fails if the checkpoint from which a trial continues is not a directory.
Result<void> check_checkpoint(const std::string& path);
// Copies `source` to `target` through a temporary name, and makes the files durable.
Result<void> copy_checkpoint(const std::string& source, const std::string& target);
// Renames a complete directory to `target`, after its files are durable.
Result<void> publish_checkpoint(const std::string& temporary, const std::string& target);
Result<void> make_directory(const std::string& path);
// Removes a directory with its files. An absent directory is no error.
void remove_directory(const std::string& path);
// Removes the directories in `parent` that are not in `known`.
void remove_unknown_directories(const std::string& parent, const std::set<std::string>& known);

}  // namespace mobula::internal::tune
