#include "store/spill_file.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/fd.h"
#include "store/core/byte_text.h"

namespace mobula::internal {
namespace {

// Bytes written between two checks of `stop`.
constexpr std::size_t step_bytes = std::size_t{4} << 20;

// Odd 64-bit constants without a pattern, derived from the golden ratio and similar values.
constexpr std::array<std::uint64_t, 4> primes{0x9e3779b97f4a7c15ULL, 0xbf58476d1ce4e5b9ULL,
                                              0x94d049bb133111ebULL, 0xd6e8feb86659fd93ULL};

std::uint64_t finish(std::uint64_t lane) {
  lane ^= lane >> 32;
  lane *= primes[1];
  return lane ^ (lane >> 29);
}

Failure disk_failure(const std::string& what, int error) {
  Failure why = errno_failure(what, error);
  const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  why.code = full ? ErrorCode::resource_exhausted : ErrorCode::unavailable;
  return why;
}

Result<void> write_all(int fd, const std::string& path, std::span<const std::byte> bytes,
                       const std::atomic<bool>& stop) {
  while (!bytes.empty()) {
    if (stop.load()) return failure(ErrorCode::cancelled, "the agent ends");
    const ssize_t count = ::write(fd, bytes.data(), std::min(bytes.size(), step_bytes));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return disk_failure("write to " + path, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return {};
}

}  // namespace

Hash128 spill_checksum(std::span<const std::byte> bytes) {
  // Four independent lanes, so that the multiplications overlap.
  std::array<std::uint64_t, 4> lanes = primes;
  std::size_t at = 0;
  for (; at + 32 <= bytes.size(); at += 32) {
    std::array<std::uint64_t, 4> words;
    std::memcpy(words.data(), bytes.data() + at, sizeof words);
    for (std::size_t i = 0; i < 4; ++i) {
      lanes[i] = std::rotl(lanes[i] ^ words[i], 29) * primes[i];
    }
  }
  std::array<std::uint64_t, 4> rest{};
  if (at < bytes.size()) std::memcpy(rest.data(), bytes.data() + at, bytes.size() - at);
  for (std::size_t i = 0; i < 4; ++i) {
    lanes[i] = std::rotl(lanes[i] ^ rest[i] ^ bytes.size(), 29) * primes[i];
  }
  const std::uint64_t high = finish(lanes[0] + std::rotl(lanes[1], 17));
  const std::uint64_t low = finish(lanes[2] + std::rotl(lanes[3], 31));
  return {high ^ std::rotl(low, 7), low ^ std::rotl(high, 19)};
}

Result<void> check_disk_space(const DiskSpace& disk, std::uint64_t bytes, int cap_percent) {
  const std::uint64_t usable = disk.used + disk.available;
  const std::uint64_t kept = usable / 100 * static_cast<std::uint64_t>(100 - cap_percent);
  if (usable == 0 || disk.available >= kept + bytes)
    return {};  // 0: the file system does not report its size
  return failure(
      ErrorCode::resource_exhausted,
      fmt::format("writing {}: the file system has {} of {} available, and may be filled to {} %",
                  byte_text(bytes), byte_text(disk.available), byte_text(usable), cap_percent));
}

Result<void> check_disk_space(const std::string& directory, std::uint64_t bytes, int cap_percent) {
  struct statvfs disk {};
  if (::statvfs(directory.c_str(), &disk) != 0) return disk_failure("statvfs " + directory, errno);
  const std::uint64_t block = disk.f_frsize;
  const DiskSpace space{(disk.f_blocks - disk.f_bfree) * block, disk.f_bavail * block};
  return check_disk_space(space, bytes, cap_percent);
}

Result<std::vector<SpilledRun>> write_spill_file(
    const std::string& path, const std::vector<std::span<const std::byte>>& values,
    const std::atomic<bool>& stop) {
  const Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) return disk_failure("make " + path, errno);
  std::vector<SpilledRun> runs;
  std::uint64_t offset = 0;
  for (const auto value : values) {
    runs.push_back({offset, spill_checksum(value)});
    if (auto written = write_all(fd.get(), path, value, stop); !written) {
      ::unlink(path.c_str());
      return written.error();
    }
    offset += value.size();
  }
  return runs;
}

Result<void> read_spilled(const std::string& path, const SpilledRun& run,
                          std::span<std::byte> into) {
  const auto lost = [&](const std::string& why) {
    return failure(ErrorCode::corrupt, "the bytes in " + path + " are lost: " + why);
  };
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd && (errno == EMFILE || errno == ENFILE || errno == ENOMEM)) {
    return disk_failure("open " + path, errno);
  }
  if (!fd) return lost(errno_failure("open", errno).text);
  std::size_t at = 0;
  while (at < into.size()) {
    const ssize_t count =
        ::pread(fd.get(), into.data() + at, into.size() - at, static_cast<off_t>(run.offset + at));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return lost(errno_failure("read", errno).text);
    if (count == 0) {
      return lost(fmt::format("the file ends after {} of {} bytes", at, into.size()));
    }
    at += static_cast<std::size_t>(count);
  }
  if (spill_checksum(into) != run.checksum) return lost("their checksum is another one");
  return {};
}

}  // namespace mobula::internal
