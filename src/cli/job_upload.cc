#include "cli/job_upload.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/time.h"
#include "deploy/job_files.h"

namespace mobula::internal::cli {
namespace {

constexpr std::uint64_t upload_part_bytes = 512u << 10;
constexpr Duration upload_tells_each = 200ms;
constexpr int most_parts_not_taken = 100;  // in a row

// One line, written over, and gone at the end.
class UploadProgress {
 public:
  explicit UploadProgress(std::uint64_t size) : size_(size), shown_(::isatty(STDERR_FILENO) != 0) {}
  ~UploadProgress() {
    if (shown_ && told_ != Time()) std::fputs("\r\033[K", stderr);
  }
  UploadProgress(const UploadProgress&) = delete;
  UploadProgress& operator=(const UploadProgress&) = delete;

  void tell(std::uint64_t have) {
    if (!shown_ || (told_ != Time() && monotonic_now() - told_ < upload_tells_each)) return;
    told_ = monotonic_now();
    std::fprintf(stderr, "\rmobula: the job's files: %.1f of %.1f MiB", static_cast<double>(have) / 0x1p20,
                 static_cast<double>(size_) / 0x1p20);
    std::fflush(stderr);
  }

 private:
  const std::uint64_t size_;
  const bool shown_;
  Time told_{};
};

Result<void> send_job_files(const deploy::JobFiles& files, const AskHead& ask) {
  UploadProgress progress(files.size_bytes);
  std::uint64_t have = 0;
  std::string part;
  for (int in_vain = 0; in_vain < most_parts_not_taken;) {
    const auto answer =
        ask("package_put", fmt::format("{} {} {}", hex_of(files.hash), files.size_bytes, have), part);
    if (!answer) return answer.error();
    const auto now = std::min(answer->value("have", std::uint64_t{0}), files.size_bytes);
    if (now == files.size_bytes) return {};
    // A head that was restarted has forgotten what had come.
    in_vain = now > have ? 0 : in_vain + 1;
    have = now;
    progress.tell(have);
    part.resize(std::min(upload_part_bytes, files.size_bytes - have));
    const ssize_t size = ::pread(files.file.get(), part.data(), part.size(), static_cast<off_t>(have));
    if (size != static_cast<ssize_t>(part.size())) return errno_failure("read the packed files", size < 0 ? errno : EIO);
  }
  return failure(ErrorCode::unavailable, "the head does not take the job's files; try again");
}

}  // namespace

Result<std::string> upload_job_files(const JobFlags& flags, const AskHead& ask) {
  if (flags.workdir.empty() && flags.ship.empty()) return std::string();
  std::error_code code;
  if (!flags.workdir.empty() && !std::filesystem::is_directory(flags.workdir, code)) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("--workdir: {} is no folder here; it travels with the job, and --cwd names one that "
                               "the node has",
                               flags.workdir));
  }
  auto files = deploy::pack_job_files({flags.workdir, flags.ship});
  if (!files) return files.error();
  if (auto sent = send_job_files(*files, ask); !sent) return sent.error();
  return hex_of(files->hash);
}

}  // namespace mobula::internal::cli
