// The program `mobula` with the libraries that it needs beyond the C library's, as one archive that a
// machine without any of it can run, named by the hash of what is in it. Runs ldd, sha256sum, strip,
// tar and gzip of this machine. Main thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace mobula::internal::deploy {

// Name and path of each shared library that the program needs beyond the C library's, in order; none of a
// program that is linked otherwise, or is a script.
std::vector<std::pair<std::string, std::string>> libraries_of(const std::string& program);

class Bundle {
 public:
  // Of the program at `path`, and of libmobula beside it where there is one.
  static Result<Bundle> of_program(const std::string& path);

  // 16 hex digits; equal where all files are.
  const std::string& hash() const { return hash_; }
  // bin/mobula and lib/* as a compressed tar archive, without debugging symbols. Takes seconds.
  Result<std::string> archive() const;

 private:
  std::vector<std::pair<std::string, std::string>> files_;  // name in the archive, path here
  std::string hash_;
};

}  // namespace mobula::internal::deploy
