// A child process at the other end of a floor measurement.
// Thread: the main thread.
#pragma once

#include <sys/types.h>

#include <functional>

namespace mobula::bench {

// Runs `body` in a child, which then exits. The destructor waits for the child.
class Child {
 public:
  explicit Child(const std::function<void()>& body);
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child();

 protected:
  void end() const;

 private:
  pid_t pid_;
};

// A child whose body does not return. The destructor terminates it.
class EndlessChild : public Child {
 public:
  using Child::Child;
  ~EndlessChild() { end(); }
};

// Throws std::system_error with errno.
[[noreturn]] void refused(const char* what);

}  // namespace mobula::bench
