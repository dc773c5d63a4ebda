// A unary echo over gRPC and TCP between two processes of this machine: the cost of an RPC
// framework without a runtime. No tasks, objects, retries, or encryption.
//
// run.py builds it. The program forks. The child serves from one completion queue and ends with its
// parent. The parent makes one call at a time (blocking stub), and 1000 at a time (completion
// queue, all started before the first is awaited).
#include <grpcpp/grpcpp.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <memory>
#include <stdexcept>

#include "echo.grpc.pb.h"
#include "timer.h"

namespace {

// One call at the server. Its address is its tag in the completion queue.
class Served {
 public:
  Served(compare::Echo::AsyncService& service, grpc::ServerCompletionQueue& queue)
      : service_(service), queue_(queue), writer_(&context_) {
    service_.RequestSay(&context_, &request_, &writer_, &queue_, &queue_, this);
  }

  // Replies and requests the next call. Deletes itself once the reply is sent.
  void advance(bool ok) {
    if (answered_ || !ok) {
      delete this;
      return;
    }
    new Served(service_, queue_);
    compare::Text reply;
    reply.set_text(request_.text());
    answered_ = true;
    writer_.Finish(reply, grpc::Status::OK, this);
  }

 private:
  compare::Echo::AsyncService& service_;
  grpc::ServerCompletionQueue& queue_;
  grpc::ServerContext context_;
  compare::Text request_;
  grpc::ServerAsyncResponseWriter<compare::Text> writer_;
  bool answered_ = false;
};

// Serves on a free loopback port and writes the port to `ready`, or 0 if no port is free.
[[noreturn]] void serve(int ready) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  int port = 0;
  compare::Echo::AsyncService service;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  const auto queue = builder.AddCompletionQueue();
  const auto server = builder.BuildAndStart();
  if (::write(ready, &port, sizeof(port)) != sizeof(port) || port == 0) ::_exit(1);
  for (int i = 0; i < 100; ++i) new Served(service, *queue);
  void* tag = nullptr;
  bool ok = false;
  while (queue->Next(&tag, &ok)) static_cast<Served*>(tag)->advance(ok);
  ::_exit(0);
}

void require(const grpc::Status& status) {
  if (!status.ok()) throw std::runtime_error("echo: " + status.error_message());
}

void say_once(compare::Echo::Stub& stub, const compare::Text& request) {
  grpc::ClientContext context;
  compare::Text reply;
  require(stub.Say(&context, request, &reply));
}

struct Call {
  grpc::ClientContext context;
  compare::Text reply;
  grpc::Status status;
  std::unique_ptr<grpc::ClientAsyncResponseReader<compare::Text>> reader;
};

void say_at_once(compare::Echo::Stub& stub, grpc::CompletionQueue& queue,
                 const compare::Text& request, std::size_t count) {
  std::vector<std::unique_ptr<Call>> calls;
  for (std::size_t i = 0; i < count; ++i) {
    calls.push_back(std::make_unique<Call>());
    Call& call = *calls.back();
    call.reader = stub.AsyncSay(&call.context, request, &queue);
    call.reader->Finish(&call.reply, &call.status, &call);
  }
  for (std::size_t i = 0; i < count; ++i) {
    void* tag = nullptr;
    bool ok = false;
    if (!queue.Next(&tag, &ok)) throw std::runtime_error("echo: the completion queue ended");
    require(static_cast<Call*>(tag)->status);
  }
}

void call(const std::string& address, const compare::Pace& pace, int argc, char** argv) {
  const auto stub =
      compare::Echo::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  compare::Text request;
  request.set_text("ok");
  if (compare::wanted(argc, argv, "grpc_unary_echo_sync")) {
    compare::measure("grpc_unary_echo_sync", 1, pace, [&] { say_once(*stub, request); });
  }
  grpc::CompletionQueue queue;
  if (compare::wanted(argc, argv, "grpc_unary_echo_async")) {
    compare::measure("grpc_unary_echo_async", 1000, pace,
                     [&] { say_at_once(*stub, queue, request, 1000); });
  }
  queue.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue.Next(&tag, &ok)) {
  }
}

}  // namespace

int main(int argc, char** argv) {
  int ends[2];
  if (::pipe(ends) != 0) {
    std::perror("grpc_echo");
    return 1;
  }
  const pid_t child = ::fork();
  if (child == 0) serve(ends[1]);
  ::close(ends[1]);
  int port = 0;
  const bool serves = ::read(ends[0], &port, sizeof(port)) == sizeof(port) && port != 0;
  if (serves) {
    const bool quick = compare::has_flag(argc, argv, "--quick");
    call("127.0.0.1:" + std::to_string(port), quick ? compare::quick_pace() : compare::Pace(), argc,
         argv);
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return serves ? 0 : 1;
}
