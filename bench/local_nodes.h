// A head and several agents on this machine, each node with a state folder of its own, started by the
// `mobula` program beside this one: what two machines on a loopback network are. For the main thread.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace mobula::bench {

class LocalNodes {
 public:
  // The first has the head; node i is labelled bench-node=i and has one CPU. While this lives, init() joins
  // the first. `options` are of each `mobula start`. Throws std::runtime_error with what the program said.
  explicit LocalNodes(int count, const std::vector<std::string>& options = {});
  ~LocalNodes();
  LocalNodes(const LocalNodes&) = delete;
  LocalNodes& operator=(const LocalNodes&) = delete;

 private:
  std::string state_of(std::size_t node) const { return (folder_ / std::to_string(node)).string(); }

  std::filesystem::path folder_;
  std::size_t started_ = 0;
};

}  // namespace mobula::bench
