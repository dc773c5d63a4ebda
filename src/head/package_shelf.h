// The files of submitted jobs, as they came from tools: one file for each hash of its bytes, in a folder of
// the head, so that they outlive it. Comes in parts, one after another, and is only there once all of it has
// come and has the hash it is named by. What was used longest ago goes when there is no more room, but never
// what a job that has not ended needs. Touches the disk, in parts of `part_bytes`; one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "base/fd.h"
#include "base/id.h"
#include "base/result.h"
#include "base/time.h"
#include "model/payload.h"
#include "protocol/program_files.h"
#include "protocol/tools.h"

namespace mobula::internal::head {

struct PackageLimits {
  std::uint64_t bytes_each = (std::uint64_t{256} << 20) + (std::uint64_t{64} << 20);  // names, links and heads too
  std::uint64_t bytes = std::uint64_t{4} << 30;
  std::size_t arriving = 16;
  Duration arrives_within = std::chrono::minutes(5);  // between two parts
};

class PackageShelf {
 public:
  static constexpr std::uint64_t part_bytes = 512u << 10;

  // `needed` says whether a job that has not ended needs the package with this name.
  PackageShelf(std::string folder, std::function<bool(const std::string& name)> needed, PackageLimits limits = {});

  static bool is_about_packages(const std::string& verb) { return verb == "package_put" || verb == "package_get"; }

  // `package_put`, of kind "HASH SIZE OFFSET", with bytes: {"have": how many there are now, "size": SIZE}. Bytes
  // that come at another offset than the next one are not taken, so it may be asked again at any time.
  // `package_get`, of kind "HASH OFFSET": the bytes from there, and {"size"}.
  ToolReply answer(const ToolRequest& request);

 private:
  struct Arriving {
    Fd file;
    std::uint64_t size = 0;
    std::uint64_t have = 0;
    RunningHash hash;
    Time last;
  };

  Result<std::string> put(const ToolRequest& request);
  Result<std::string> get(const ToolRequest& request, Payload& bytes);
  Result<Arriving*> arriving(const std::string& name, std::uint64_t size);
  Result<void> make_room(std::uint64_t bytes);
  Result<void> keep(const std::string& name, Arriving& package);
  void drop(const std::string& name);
  std::string path_of(const std::string& name) const { return folder_ + "/" + name; }
  std::string new_path_of(const std::string& name) const { return path_of(name) + ".new"; }

  const std::string folder_;
  const std::function<bool(const std::string&)> needed_;
  const PackageLimits limits_;
  std::map<std::string, Arriving> arriving_;
};

}  // namespace mobula::internal::head
