#include "deploy/bundle.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "deploy/process.h"

namespace mobula::internal::deploy {
namespace {

namespace fs = std::filesystem;

constexpr Duration tool_timeout = 120s;
constexpr const char* runtime_library = "libmobula.so.0";

Result<std::string> output_of(std::vector<std::string> words) {
  Command command;
  command.words = std::move(words);
  command.environment = {{"LC_ALL", "C"}};
  const auto outcome = run(command, "", tool_timeout);
  if (!outcome) return outcome.error();
  if (outcome->code != 0) {
    return failure(
        ErrorCode::resource_exhausted,
        fmt::format("{} has failed: {}", command.words.front(), outcome->err.substr(0, 300)));
  }
  return outcome->out;
}

// Libraries that belong to the C library of a machine.
bool of_the_system(const std::string& name) {
  constexpr std::array<std::string_view, 9> prefixes{"libc.so",    "libm.so",   "libpthread.so",
                                                     "libdl.so",   "librt.so",  "libresolv.so",
                                                     "libutil.so", "libnsl.so", "ld-linux"};
  return std::ranges::any_of(prefixes, [&](auto prefix) { return name.starts_with(prefix); });
}

// Parses the output of ldd: "     libzmq.so.5 => /lib/libzmq.so.5 (0x…)".
std::vector<std::pair<std::string, std::string>> libraries_in(const std::string& text) {
  std::vector<std::pair<std::string, std::string>> found;
  std::istringstream lines(text);
  std::set<std::string> seen;
  for (std::string line; std::getline(lines, line);) {
    const auto arrow = line.find(" => /");
    if (arrow == std::string::npos) continue;
    const auto begin = line.find_first_not_of("\t ");
    const auto name = line.substr(begin, arrow - begin);
    if (of_the_system(name) || !seen.insert(name).second) continue;
    found.emplace_back(name, line.substr(arrow + 4, line.find(" (", arrow) - arrow - 4));
  }
  std::ranges::sort(found);
  return found;
}

struct Directory {
  std::string path;
  Directory() = default;
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  ~Directory() {
    std::error_code ignored;
    if (!path.empty()) fs::remove_all(path, ignored);
  }
};

}  // namespace

std::vector<std::pair<std::string, std::string>> libraries_of(const std::string& program) {
  const auto needed = output_of({"ldd", program});
  return needed ? libraries_in(*needed) : std::vector<std::pair<std::string, std::string>>{};
}

Result<Bundle> Bundle::of_program(const std::string& path) {
  Bundle bundle;
  bundle.files_.emplace_back("bin/mobula", path);
  std::vector<std::string> words{"ldd", path};
  const auto beside = fs::path(path).parent_path().parent_path();
  for (const char* directory : {"lib", "lib64", "lib/x86_64-linux-gnu"}) {
    const auto library = beside / directory / runtime_library;
    std::error_code code;
    if (!fs::exists(library, code)) continue;
    bundle.files_.emplace_back(std::string("lib/") + runtime_library, library.string());
    words.push_back(library.string());
    break;
  }
  const auto needed = output_of(words);
  // A static program needs no libraries.
  const bool alone = !needed && words.size() == 2 &&
                     needed.error().text.find("not a dynamic executable") != std::string::npos;
  if (!needed && !alone) return needed.error();
  for (const auto& [name, file] : libraries_in(needed ? *needed : "")) {
    if (name != runtime_library) bundle.files_.emplace_back("lib/" + name, file);
  }
  std::ranges::sort(bundle.files_);
  std::vector<std::string> hashing{"sha256sum", "--"};
  for (const auto& [unused, file] : bundle.files_) hashing.push_back(file);
  const auto hashes = output_of(hashing);
  if (!hashes) return hashes.error();
  // Hash of the file hashes and the names in the archive, so that local paths make no difference.
  std::string together;
  std::istringstream sums(*hashes);
  for (const auto& [name, unused] : bundle.files_) {
    std::string line;
    std::getline(sums, line);
    together += line.substr(0, 64) + " " + name + "\n";
  }
  Command command;
  command.words = {"sha256sum"};
  const auto all = run(command, together, tool_timeout);
  if (!all) return all.error();
  bundle.hash_ = all->out.substr(0, 16);
  return bundle;
}

Result<std::string> Bundle::archive() const {
  Directory directory;
  std::error_code code;
  std::string name = (fs::temp_directory_path(code) / "mobula-bundle-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) return errno_failure("make a folder " + name, errno);
  directory.path = name;
  for (const char* each : {"/bin", "/lib"}) fs::create_directory(name + each, code);
  for (const auto& [in_archive, path] : files_) {
    const auto copy = name + "/" + in_archive;
    // Libraries from system packages are already stripped.
    const bool own = in_archive == "bin/mobula" || in_archive.ends_with(runtime_library);
    if (own && output_of({"strip", "--strip-debug", "-o", copy, path})) continue;
    if (!fs::copy_file(path, copy, fs::copy_options::overwrite_existing, code)) {
      return failure(ErrorCode::resource_exhausted,
                     fmt::format("cannot copy {} to {}: {}", path, copy, code.message()));
    }
  }
  const auto archive = name + "/bundle.tgz";
  auto packed = output_of(
      {"tar", "--use-compress-program=gzip -1", "-cf", archive, "-C", name, "bin", "lib"});
  if (!packed) return packed.error();
  std::ifstream file(archive, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (!file || bytes.empty()) {
    return failure(ErrorCode::resource_exhausted, "cannot read " + archive + "; is the disk full?");
  }
  return bytes;
}

}  // namespace mobula::internal::deploy
