#include "cli/commands/job_upload.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/time.h"
#include "cli/output/progress.h"
#include "deploy/job_files.h"

namespace mobula::internal::cli {
namespace {

constexpr std::uint64_t upload_part_bytes = 512u << 10;
constexpr int most_parts_not_taken = 100;  // consecutive parts without progress

Result<void> send_job_files(const deploy::JobFiles& files, const AskHead& ask, Progress& progress) {
  std::uint64_t have = 0;
  std::string part;
  for (int in_vain = 0; in_vain < most_parts_not_taken;) {
    const auto answer = ask(
        "package_put", fmt::format("{} {} {}", hex_of(files.hash), files.size_bytes, have), part);
    if (!answer) return answer.error();
    const auto now = std::min(answer->value("have", std::uint64_t{0}), files.size_bytes);
    if (now == files.size_bytes) return {};
    // A restarted head has lost the received parts.
    in_vain = now > have ? 0 : in_vain + 1;
    have = now;
    progress.tell_bytes("the job's files", have, files.size_bytes);
    part.resize(std::min(upload_part_bytes, files.size_bytes - have));
    const ssize_t size =
        ::pread(files.file.get(), part.data(), part.size(), static_cast<off_t>(have));
    if (size != static_cast<ssize_t>(part.size()))
      return errno_failure("read the packed files", size < 0 ? errno : EIO);
  }
  return failure(ErrorCode::unavailable,
                 "upload the job's files: the head makes no progress; try again");
}

}  // namespace

Result<std::string> upload_job_files(const JobFlags& flags, const AskHead& ask) {
  if (flags.workdir.empty() && flags.ship.empty() && flags.ship_lib.empty()) return std::string();
  std::error_code code;
  if (!flags.workdir.empty() && !std::filesystem::is_directory(flags.workdir, code)) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("--workdir: {} is not a local directory; --cwd names a directory of "
                               "the node",
                               flags.workdir));
  }
  Progress progress(!flags.no_progress);
  progress.tell("packing the job's files");
  auto files = deploy::pack_job_files({flags.workdir, flags.ship, flags.ship_lib});
  if (!files) return files.error();
  if (auto sent = send_job_files(*files, ask, progress); !sent) return sent.error();
  return hex_of(files->hash);
}

}  // namespace mobula::internal::cli
