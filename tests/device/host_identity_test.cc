// Sharing of memory between processes, by the namespaces of real processes.
#include "device/host_identity.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>

namespace mobula::internal::exchange {
namespace {

// Host identity in a process that has left these namespaces; empty if that is not permitted.
std::string identity_apart(int namespaces) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) return {};
  const pid_t child = ::fork();
  if (child == 0) {
    // An unprivileged process needs a user namespace first.
    const int also = ::geteuid() == 0 ? 0 : CLONE_NEWUSER;
    const std::string seen = ::unshare(namespaces | also) == 0 ? host_identity() : std::string();
    (void)!::write(ends[1], seen.data(), seen.size());
    ::_exit(0);
  }
  ::close(ends[1]);
  std::array<char, 512> text;
  const ssize_t size = ::read(ends[0], text.data(), text.size());
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  return size <= 0 ? std::string() : std::string(text.data(), static_cast<std::size_t>(size));
}

TEST(MachineIdentity, MatchesIdentityOfChild) {
  EXPECT_FALSE(host_identity().empty());
  EXPECT_EQ(identity_apart(0), host_identity());
}

TEST(MachineIdentity, DiffersBetweenContainersOfOneHost) {
  for (const int apart : {CLONE_NEWNS, CLONE_NEWIPC}) {
    const std::string other = identity_apart(apart);
    EXPECT_FALSE(other.empty());
    EXPECT_NE(other, host_identity()) << apart;
  }
}

}  // namespace
}  // namespace mobula::internal::exchange
