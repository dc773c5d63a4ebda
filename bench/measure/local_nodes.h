// A head and several agents on this machine, each node with its own state directory, started by the
// `mobula` program in the same directory. Models machines on a loopback network.
// Thread: the main thread. Errors: std::runtime_error with the program's output.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace mobula::bench {

class LocalNodes {
 public:
  // The first node runs the head. Node i has the label bench-node=i and one CPU. During the
  // lifetime of this object, init() joins the first node. `options` are passed to each `mobula
  // start`.
  explicit LocalNodes(int count, const std::vector<std::string>& options = {});
  ~LocalNodes();
  LocalNodes(const LocalNodes&) = delete;
  LocalNodes& operator=(const LocalNodes&) = delete;

 private:
  std::string state_of(std::size_t node) const {
    return (directory_ / std::to_string(node)).string();
  }

  std::filesystem::path directory_;
  std::size_t started_ = 0;
};

}  // namespace mobula::bench
