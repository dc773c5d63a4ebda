// A cluster of the bundle's `mobula` program on the machine's GPU, for stages about the product.
// Thread: owner. Owner: its processes and its state directory; the destructor ends both.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "device/gpu/check/command.h"
#include "device/gpu/check/stages/stages.h"

namespace mobula::internal::gpu_check {

// The end of a text, at most 300 bytes.
std::string tail_of(const std::string& text);

class Cluster {
 public:
  using Words = std::vector<std::string>;

  explicit Cluster(Findings& findings);
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  // Sets a variable of all commands and processes that start after this call.
  void set(const std::string& name, const std::string& value) { variables_[name] = value; }
  // Starts a head and an agent with these flags, and records whether that succeeds.
  bool start(const Words& flags);
  CommandEnd mobula(Words words) { return run("mobula", std::move(words), limit()); }
  Json json_of(Words words);
  // Runs a scenario of gpu_check_driver and records its findings. `on_finding` is called with the
  // text of each, while the scenario runs.
  void scenario(const std::string& name,
                const std::function<void(const std::string&)>& on_finding = {});
  // `own`: the example starts its own cluster with logical devices, as its text says.
  void example(const std::string& name, bool own);

  const std::filesystem::path& programs() const { return programs_; }
  const std::string& directory() const { return directory_; }

 private:
  std::map<std::string, std::string> environment() const;
  Duration limit() const;
  CommandEnd run(const std::string& program, Words words, Duration limit,
                 const std::function<void(const std::string&)>& on_line = {});

  Findings& findings_;
  std::filesystem::path programs_;
  std::map<std::string, std::string> variables_;
  std::string directory_, address_;
  bool started_ = false;
};

}  // namespace mobula::internal::gpu_check
