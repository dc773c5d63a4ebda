#include "cli/commands/jobs/job_upload.h"

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

constexpr std::uint64_t upload_chunk_bytes = 512u << 10;
constexpr int max_chunks_not_taken = 100;  // consecutive parts without progress

Result<void> send_job_files(const deploy::JobFiles& files, const RequestHead& request,
                            Progress& progress) {
  std::uint64_t have = 0;
  std::string chunk;
  for (int in_vain = 0; in_vain < max_chunks_not_taken;) {
    const auto answer = request(
        "package_put", fmt::format("{} {} {}", hex_of(files.hash), files.size_bytes, have), chunk);
    if (!answer) return answer.error();
    const auto now = std::min(answer->value("have", std::uint64_t{0}), files.size_bytes);
    if (now == files.size_bytes) return {};
    // A restarted head has lost the received parts.
    in_vain = now > have ? 0 : in_vain + 1;
    have = now;
    progress.show_bytes("the job's files", have, files.size_bytes);
    chunk.resize(std::min(upload_chunk_bytes, files.size_bytes - have));
    const ssize_t size =
        ::pread(files.file.get(), chunk.data(), chunk.size(), static_cast<off_t>(have));
    if (size != static_cast<ssize_t>(chunk.size()))
      return errno_failure("read the packed files", size < 0 ? errno : EIO);
  }
  return failure(ErrorCode::unavailable,
                 "upload the job's files: the head makes no progress; try again");
}

}  // namespace

Result<std::string> upload_job_files(const JobFlags& flags, const RequestHead& request) {
  if (flags.workdir.empty() && flags.ship.empty() && flags.ship_lib.empty()) return std::string();
  std::error_code code;
  if (!flags.workdir.empty() && !std::filesystem::is_directory(flags.workdir, code)) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("--workdir: {} is not a local directory; --cwd names a directory of "
                               "the node",
                               flags.workdir));
  }
  Progress progress(!flags.no_progress);
  progress.show("packing the job's files");
  auto files = deploy::pack_job_files({flags.workdir, flags.ship, flags.ship_lib});
  if (!files) return files.error();
  if (auto sent = send_job_files(*files, request, progress); !sent) return sent.error();
  return hex_of(files->hash);
}

}  // namespace mobula::internal::cli
