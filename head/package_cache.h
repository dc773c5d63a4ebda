// Stores the uploaded files of submitted jobs in a directory of the head: one file per content
// hash, which survives a restart. A file arrives in chunks and is available when it is complete and
// its hash is correct. Without space, the least recently used files are deleted, except those of
// unfinished jobs.
// Thread: owner. Reads and writes the disk in chunks of at most `part_bytes`.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "base/fd.h"
#include "base/id.h"
#include "base/model/payload.h"
#include "base/result.h"
#include "base/time.h"
#include "protocol/messages/tools.h"
#include "protocol/program/program_files.h"

namespace mobula::internal::head {

struct PackageLimits {
  // Limit of one file, with names, links, and headers.
  std::uint64_t bytes_each = (std::uint64_t{256} << 20) + (std::uint64_t{64} << 20);
  std::uint64_t bytes = std::uint64_t{4} << 30;
  std::size_t arriving = 16;
  Duration chunk_timeout = std::chrono::minutes(5);  // between two chunks
};

class PackageCache {
 public:
  static constexpr std::uint64_t chunk_bytes = 512u << 10;

  // `needed` returns whether an unfinished job needs the package `name`.
  PackageCache(std::string directory, std::function<bool(const std::string& name)> needed,
               PackageLimits limits = {});

  static bool is_about_packages(const std::string& verb) {
    return verb == "package_put" || verb == "package_get";
  }

  // Answers two verbs.
  // `package_put` with kind "HASH SIZE OFFSET" and bytes returns {"have": bytes stored so far,
  // "size": SIZE}. Bytes at any other offset than the next one are ignored, so a client may repeat
  // a request at any time.
  // `package_get` with kind "HASH OFFSET" returns the bytes from OFFSET, and {"size"}.
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
  Result<void> free_space(std::uint64_t bytes);
  Result<void> store(const std::string& name, Arriving& package);
  void drop(const std::string& name);
  std::string path_of(const std::string& name) const { return directory_ + "/" + name; }
  std::string new_path_of(const std::string& name) const { return path_of(name) + ".new"; }

  const std::string directory_;
  const std::function<bool(const std::string&)> needed_;
  const PackageLimits limits_;
  std::map<std::string, Arriving> arriving_;
};

}  // namespace mobula::internal::head
