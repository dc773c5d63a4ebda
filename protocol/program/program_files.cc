#include "protocol/program/program_files.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>

#include "base/fd.h"
#include "protocol/codec/codec.h"

namespace mobula::internal {
namespace {

bool is_system(const std::string& path) {
  for (const char* directory :
       {"/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/", "/usr/local/cuda"}) {
    if (path.starts_with(directory)) return true;
  }
  return false;
}

}  // namespace

Result<std::vector<std::string>> program_paths(std::int64_t pid) {
  const std::string directory = "/proc/" + (pid == 0 ? std::string("self") : std::to_string(pid));
  std::error_code code;
  const auto executable = std::filesystem::read_symlink(directory + "/exe", code);
  if (code) return errno_failure("read " + directory + "/exe", code.value());
  std::vector<std::string> paths{executable.string()};
  std::ifstream maps(directory + "/maps");
  for (std::string line; std::getline(maps, line);) {
    const auto slash = line.find('/');
    if (slash == std::string::npos) continue;
    const std::string path = line.substr(slash);
    const bool library = path.find(".so") != std::string::npos && !path.ends_with(" (deleted)");
    if (!library || is_system(path)) continue;
    if (std::ranges::find(paths, path) == paths.end()) paths.push_back(path);
  }
  std::sort(paths.begin() + 1, paths.end());
  return paths;
}

std::string plugins_beside(const std::string& file) {
  std::error_code code;
  const auto directory = std::filesystem::canonical(file, code).parent_path();
  if (code) return {};
  for (const auto& each : {directory / "mobula", directory.parent_path() / "lib" / "mobula"}) {
    if (std::filesystem::is_directory(each, code)) return each.string();
  }
  return {};
}

struct RunningHash::State {
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context{EVP_MD_CTX_new(),
                                                                  EVP_MD_CTX_free};
};

RunningHash::RunningHash() : state_(std::make_unique<State>()) {
  MOBULA_CHECK(
      state_->context && EVP_DigestInit_ex(state_->context.get(), EVP_sha256(), nullptr) == 1,
      "SHA-256 is not available");
}
RunningHash::RunningHash(RunningHash&&) noexcept = default;
RunningHash& RunningHash::operator=(RunningHash&&) noexcept = default;
RunningHash::~RunningHash() = default;

void RunningHash::add(std::span<const std::byte> bytes) {
  EVP_DigestUpdate(state_->context.get(), bytes.data(), bytes.size());
}

Hash128 RunningHash::end() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  EVP_DigestFinal_ex(state_->context.get(), digest, nullptr);
  Hash128 hash;
  for (int i = 0; i < 8; ++i) {
    hash.high = (hash.high << 8) | digest[i];
    hash.low = (hash.low << 8) | digest[8 + i];
  }
  return hash;
}

Result<Hash128> hash_file(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return errno_failure("read " + path, errno);
  RunningHash hash;
  std::vector<std::byte> buffer(1u << 20);
  while (true) {
    const ssize_t count = ::read(file.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno_failure("read " + path, errno);
    if (count == 0) return hash.end();
    hash.add(std::span(buffer).first(static_cast<std::size_t>(count)));
  }
}

Result<ProgramRecord> describe_program(std::int64_t pid) {
  const auto paths = program_paths(pid);
  if (!paths) return paths.error();
  ProgramRecord program;
  for (const auto& path : *paths) {
    const auto hash = hash_file(path);
    if (!hash) return hash.error();
    std::error_code code;
    const auto size = std::filesystem::file_size(path, code);
    program.files.push_back({std::filesystem::path(path).filename().string(), *hash,
                             static_cast<std::int64_t>(code ? 0 : size)});
  }
  program.id = ProgramId(siphash128({}, encode(program.files)));
  return program;
}

}  // namespace mobula::internal
