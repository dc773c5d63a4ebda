#include "tune/runtime/policy_files.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "base/logging/stderr_queue.h"
#include "tune/runtime/trial/trial_files.h"
#include "tune/store/config_json.h"

namespace mobula::internal::tune {
namespace {

std::string policy_directory(const std::string& directory) { return directory + "/policies"; }

}  // namespace

std::string policy_file(const std::string& directory, TrialNumber trial) {
  return fmt::format("{}/pbt_policy_{}.txt", policy_directory(directory), trial);
}

void append_policy(const std::string& directory, const TrialExploited& exploit) {
  std::error_code error;
  const std::string own = policy_file(directory, exploit.trial);
  const std::string donor = policy_file(directory, exploit.donor);
  std::filesystem::create_directories(policy_directory(directory), error);
  if (std::filesystem::exists(donor))
    std::filesystem::copy_file(donor, own, std::filesystem::copy_options::overwrite_existing,
                               error);
  std::ofstream file(own, std::ios::app);
  file << fmt::format("[\"{}\", \"{}\", {}, {}, {}, {}]\n", exploit.trial, exploit.donor,
                      exploit.iteration, exploit.donor_iteration, to_json(exploit.donor_config),
                      to_json(exploit.config));
  file.flush();
  if (error || !file) print_stderr("tune: write policy {}: failed; free space on the storage", own);
}

void remove_policies(const std::string& directory) {
  remove_directory(policy_directory(directory));
}

}  // namespace mobula::internal::tune
