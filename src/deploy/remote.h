// One machine of an inventory, as it is reached over ssh: what it is told to do, and how that went.
// The system's ssh carries it; it asks for nothing at the terminal. Any thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "deploy/inventory.h"
#include "deploy/process.h"

namespace mobula::internal::deploy {

class Remote {
 public:
  Remote(const Inventory& inventory, const Host& host) : inventory_(inventory), host_(host) {}

  const Host& host() const { return host_; }

  // Runs one action of the script below with these variables; `input` is what it reads. What it
  // has printed. Fails with unavailable where the machine cannot be reached, permission_denied where
  // it admits nobody with this key or is not the machine that it was, timed_out, and not_found where
  // there is no ssh; with resource_exhausted where the action failed: the text is its last line.
  Result<std::string> act(const std::string& action, std::map<std::string, std::string> variables,
                          const std::string& input, Duration patience) const;

  // Takes the place of the one who changes this cluster, at the host that has its folder; `who` is said to others
  // meanwhile. Theirs again when the process that is returned ends, or this one, and an hour after at the latest where
  // nobody hears of that. already_exists names who has it; other failures as of act().
  Result<Process> hold(const std::string& who, Duration patience) const;

  // The words of an ssh that runs `line` there with this cluster's environment; with a terminal or
  // without one.
  std::vector<std::string> session(const std::string& line, bool terminal) const;

 private:
  std::vector<std::string> ssh(bool terminal) const;
  std::string script(const std::string& action, std::map<std::string, std::string> variables) const;

  const Inventory& inventory_;
  const Host& host_;
};

}  // namespace mobula::internal::deploy
