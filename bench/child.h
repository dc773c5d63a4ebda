// A child process that a floor needs at its other end. For the main thread.
#pragma once

#include <sys/types.h>

#include <functional>

namespace mobula::bench {

// Runs `body` in a child, which then exits; the end of this waits for it.
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

// One whose body does not end by itself: it is ended with this.
class EndlessChild : public Child {
 public:
  using Child::Child;
  ~EndlessChild() { end(); }
};

// Throws std::system_error with errno.
[[noreturn]] void refused(const char* what);

}  // namespace mobula::bench
