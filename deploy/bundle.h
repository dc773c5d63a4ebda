// Packs the program `mobula` with its libraries, apart from the C library, into an archive that
// runs on a machine without them. Its name is the hash of its contents. Runs ldd, sha256sum, strip,
// tar, and gzip.
// Thread: main.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace mobula::internal::deploy {

// Name and path of each shared library of the program apart from the C library, in order. Empty for
// a static program or a script.
std::vector<std::pair<std::string, std::string>> libraries_of(const std::string& program);

class Bundle {
 public:
  // Bundles the program at `path`, and libmobula next to it if present.
  static Result<Bundle> of_program(const std::string& path);

  // 16 hex digits; equal if all files are equal
  const std::string& hash() const { return hash_; }
  // bin/mobula and lib/* as a compressed tar archive, without debugging symbols. Takes seconds.
  Result<std::string> archive() const;

 private:
  std::vector<std::pair<std::string, std::string>> files_;  // name in the archive, local path
  std::string hash_;
};

}  // namespace mobula::internal::deploy
