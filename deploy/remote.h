// One machine of a cluster file over ssh: runs actions there and returns their results. Uses the
// ssh program of the system, which never prompts.
// Thread: any.
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

  // Runs one action of the script in remote.cc with these variables and `input` as its standard
  // input. Returns its output.
  // Errors: unavailable if the machine is unreachable; permission_denied if it rejects the key or
  // its host key has changed; timed_out; not_found without an ssh program; resource_exhausted if
  // the action failed, with its last line as text.
  Result<std::string> act(const std::string& action, std::map<std::string, std::string> variables,
                          const std::string& input, Duration timeout) const;

  // Takes the lock for changes of this cluster, on the host with its directory. Others see `who` as
  // the holder. The lock ends with the returned process or this process, and at most an hour later
  // if that end is not noticed.
  // Errors: already_exists with the holder; others as for act().
  Result<Process> hold(const std::string& who, Duration timeout) const;

  // The command line of an ssh that runs `line` there with the environment of this cluster, with or
  // without a terminal.
  std::vector<std::string> session(const std::string& line, bool terminal) const;

 private:
  std::vector<std::string> ssh(bool terminal) const;
  std::string script(const std::string& action, std::map<std::string, std::string> variables) const;

  const Inventory& inventory_;
  const Host& host_;
};

}  // namespace mobula::internal::deploy
