// An actor of the bench-service program, which mobula-bench-services calls by name.
#pragma once

class RemoteEcho {
 public:
  int next(int x);
};
