// The part of the Python host that is written in C++: it passes bytes, buffers, refs, and handles,
// and takes the GIL for the hooks. python_host.py pickles values and functions.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <mobula/dynamic.h>
#include <mobula/interrupt.h>

#include "neutral_values.h"

namespace nb = nanobind;
namespace md = mobula::dynamic;

namespace {

constexpr const char* format = "python/1";

// Python objects that live as long as the process.
struct Hooks {
  PyObject* run = nullptr;
  PyObject* assigned = nullptr;
  PyObject* leave = nullptr;
  PyObject* cancelled_type = nullptr;  // exception that a cancelled call gets
};
Hooks hooks;
std::optional<mobula::Cluster> cluster;
std::atomic<md::CallId> current_call{0};  // call that the main thread runs; 0 without one
PyGILState_STATE forking;

md::Payload payload_of(nb::handle neutral) {
  return md::neutral_payload(nb::cast<Neutral&>(neutral).value);
}

// Memory of a stored value, for memoryview.
struct Buffer {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;  // shared with the stored value
};

int export_buffer(PyObject* self, Py_buffer* view, int flags) {
  const Buffer& buffer = *nb::inst_ptr<Buffer>(self);
  return PyBuffer_FillInfo(view, self, const_cast<std::byte*>(buffer.bytes.data()),
                           static_cast<Py_ssize_t>(buffer.bytes.size()), 1, flags);
}
PyType_Slot buffer_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(&export_buffer)},
                              {0, nullptr}};

// A value of Python as (body, buffers, refs, actors). Constructed and destroyed with the GIL;
// `payload` needs no Python object while it is written.
class Value {
 public:
  explicit Value(nb::tuple value) {
    md::Payload::Parts parts;
    parts.body = exported(value[0]);
    for (nb::handle each : nb::cast<nb::list>(value[1])) parts.buffers.push_back(exported(each));
    for (nb::handle each : nb::cast<nb::list>(value[2]))
      parts.refs.push_back(nb::cast<mobula::AnyRef&>(each));
    for (nb::handle each : nb::cast<nb::list>(value[3]))
      parts.actors.push_back(nb::cast<mobula::AnyActor&>(each));
    payload_.emplace(format, std::move(parts));
  }
  Value(const Value&) = delete;
  Value& operator=(const Value&) = delete;
  ~Value() {
    for (Py_buffer& each : views_) PyBuffer_Release(&each);
  }

  const md::Payload& payload() const { return *payload_; }

 private:
  std::span<const std::byte> exported(nb::handle object) {
    Py_buffer view;
    if (PyObject_GetBuffer(object.ptr(), &view, PyBUF_SIMPLE) != 0) throw nb::python_error();
    views_.push_back(view);
    return {static_cast<const std::byte*>(view.buf), static_cast<std::size_t>(view.len)};
  }

  std::vector<Py_buffer> views_;
  std::optional<md::Payload> payload_;
};

// Arguments of a call: refs, neutral values, and tuples, which are values of Python.
class Arguments {
 public:
  explicit Arguments(nb::list given) {
    for (nb::handle each : given) {
      if (nb::isinstance<mobula::AnyRef>(each)) {
        refs_.push_back(std::make_unique<mobula::AnyRef>(nb::cast<mobula::AnyRef&>(each)));
        all_.push_back({.ref = refs_.back().get()});
      } else if (nb::isinstance<Neutral>(each)) {
        neutral_.emplace_back(new md::Payload(payload_of(each)));
        all_.push_back({.value = neutral_.back().get()});
      } else {
        values_.push_back(std::make_unique<Value>(nb::cast<nb::tuple>(each)));
        all_.push_back({.value = &values_.back()->payload()});
      }
    }
  }
  std::span<const md::Argument> all() const { return all_; }

 private:
  std::vector<std::unique_ptr<Value>> values_;
  std::vector<std::unique_ptr<md::Payload>> neutral_;
  std::vector<std::unique_ptr<mobula::AnyRef>> refs_;
  std::vector<md::Argument> all_;
};

// A Neutral, or (body, buffers, refs, actors), read in place. Called with the GIL.
nb::object to_python(const md::StoredPayload& value) {
  if (value.format() == md::neutral_format) {
    nb::object neutral = nb::cast(Neutral());
    md::NeutralValue& content = nb::cast<Neutral&>(neutral).value;
    const nb::gil_scoped_release released;
    content = md::neutral_value(value);
    return neutral;
  }
  auto parts = [&] {
    const nb::gil_scoped_release released;
    return value.parts(format);
  }();
  const auto memory = [&](std::span<const std::byte> bytes) {
    nb::object buffer = nb::cast(new Buffer{bytes, parts.owner}, nb::rv_policy::take_ownership);
    return nb::steal(PyMemoryView_FromObject(buffer.ptr()));
  };
  nb::list buffers, refs, actors;
  for (const auto& each : parts.buffers) buffers.append(memory(each));
  for (auto& each : parts.refs) refs.append(nb::cast(mobula::AnyRef(each)));
  for (auto& each : parts.actors) actors.append(nb::cast(mobula::AnyActor(each)));
  return nb::make_tuple(memory(parts.body), buffers, refs, actors);
}

// Runs `use` without the GIL.
template <class Use>
auto unlocked(Use use) {
  const nb::gil_scoped_release released;
  return use();
}

std::atomic<int> waits{0};  // calls that may block now

// Runs a call that blocks, without the GIL. A signal ends the call: Python's handler runs, and the
// call is repeated unless the handler raises an exception.
template <class Use>
auto interruptible(Use use) {
  struct Count {
    Count() { ++waits; }
    ~Count() { --waits; }
  };
  for (;;) {
    try {
      return unlocked([&] {
        const Count count;
        return use();
      });
    } catch (const mobula::InterruptedError&) {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
    }
  }
}

std::array<void (*)(int), 65> handlers_of_python{};  // by signal

// Python's handler is first: the interrupted thread finds that its signal has arrived.
void on_signal(int number) {
  handlers_of_python[static_cast<std::size_t>(number)](number);
  mobula::interrupt_waits();
}

// Lets a signal with a handler in Python end blocked calls. `signal.signal` undoes this.
void interrupt_on(int number) {
  struct sigaction action {};
  if (::sigaction(number, nullptr, &action) != 0 || action.sa_handler == SIG_DFL ||
      action.sa_handler == SIG_IGN) {
    throw nb::value_error("the signal has no handler");
  }
  if (action.sa_handler == &on_signal) return;
  handlers_of_python.at(static_cast<std::size_t>(number)) = action.sa_handler;
  action.sa_handler = &on_signal;
  ::sigaction(number, &action, nullptr);
}

std::vector<mobula::AnyRef> submit(const std::string& name, nb::list given, int num_returns,
                                   bool retry_exceptions,
                                   const std::map<std::string, std::string>& env, bool streaming,
                                   const std::string& program, double num_cpus, int max_retries) {
  const Arguments arguments(given);
  return unlocked([&] {
    return md::submit({.name = name, .program = program},
                      {.num_cpus = num_cpus,
                       .max_retries = max_retries,
                       .retry_exceptions = retry_exceptions,
                       .env = env},
                      arguments.all(), {.count = num_returns, .streaming = streaming});
  });
}

// The error as (kind, message, type, pickled exception).
nb::tuple to_python(const mobula::detail::ErrorRecord& error) {
  const nb::bytes pickled(reinterpret_cast<const char*>(error.exception_bytes.data()),
                          error.exception_bytes.size());
  return nb::make_tuple(static_cast<int>(error.kind), error.message, error.remote_type, pickled);
}

// (item, next position), None at the end, or the error.
nb::object next(const mobula::AnyRef& position, double timeout) {
  auto step = interruptible([&] { return md::next(position, {mobula::Duration(timeout)}); });
  if (const auto* error = std::get_if<mobula::detail::ErrorRecord>(&step)) return to_python(*error);
  auto& at = std::get<md::StreamItem>(step);
  if (at.item.empty()) return nb::none();
  return nb::make_tuple(std::move(at.item), std::move(at.next));
}

mobula::AnyActor create(const std::string& class_name, nb::list given, const std::string& name,
                        const std::string& name_space, bool asynchronous) {
  const Arguments arguments(given);
  return unlocked([&] {
    return md::create(
        {.name = class_name + ".__init__", .class_name = class_name, .asynchronous = asynchronous},
        {.name = name, .name_space = name_space}, arguments.all());
  });
}

std::vector<mobula::AnyRef> call(const mobula::AnyActor& actor, const std::string& name,
                                 nb::list given, int num_returns) {
  const Arguments arguments(given);
  return unlocked(
      [&] { return md::call(actor, {.name = name}, {}, arguments.all(), {.count = num_returns}); });
}

mobula::AnyRef put(nb::tuple given) {
  const Value value(given);
  return unlocked([&] { return md::put(value.payload()); });
}

// A list of values, and of (kind, message, type, pickled exception) for errors.
nb::list get(const std::vector<mobula::AnyRef>& refs, double timeout) {
  const auto fetched =
      interruptible([&] { return md::get(refs, {.timeout = mobula::Duration(timeout)}); });
  nb::list all;
  for (const auto& each : fetched) {
    if (const auto* value = std::get_if<md::StoredPayload>(&each)) {
      all.append(nb::make_tuple(true, to_python(*value)));
    } else {
      all.append(nb::make_tuple(false, to_python(std::get<mobula::detail::ErrorRecord>(each))));
    }
  }
  return all;
}

std::shared_ptr<void> own_actor(nb::object actor) {
  return {actor.release().ptr(), [](void* object) {
            const nb::gil_scoped_acquire gil;
            Py_DECREF(static_cast<PyObject*>(object));
          }};
}

// Calls of an asynchronous actor and requests to cancel them, for an event loop of Python. The
// descriptor is readable while the source has either.
class CallSource {
 public:
  CallSource() : descriptor_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

  // On the threads of Mobula, without the GIL.
  void add(md::Call call) {
    {
      const std::lock_guard lock(mutex_);
      calls_.push_back(std::move(call));
    }
    wake();
  }
  void cancel(md::CallId call) {
    {
      const std::lock_guard lock(mutex_);
      cancelled_.push_back(call);
    }
    wake();
  }

  // With the GIL: the calls, and the ids of cancelled calls.
  nb::tuple take() {
    std::uint64_t count = 0;
    (void)!::read(descriptor_, &count, sizeof count);
    std::vector<md::Call> calls;
    std::vector<md::CallId> cancelled;
    {
      const std::lock_guard lock(mutex_);
      calls.swap(calls_);
      cancelled.swap(cancelled_);
    }
    nb::list all;
    for (md::Call& each : calls)
      all.append(nb::cast(new md::Call(std::move(each)), nb::rv_policy::take_ownership));
    return nb::make_tuple(all, nb::cast(cancelled));
  }
  int fd() const { return descriptor_; }

 private:
  void wake() const {
    const std::uint64_t one = 1;
    (void)!::write(descriptor_, &one, sizeof one);
  }

  const int descriptor_;  // open until the process ends
  std::mutex mutex_;
  std::vector<md::Call> calls_;
  std::vector<md::CallId> cancelled_;
};
std::atomic<CallSource*> source{nullptr};  // calls of an asynchronous actor; never deleted

void run(md::Call given) {
  CallSource* const to = source;
  if (to != nullptr && given.callable().kind == md::Kind::method) return to->add(std::move(given));
  const nb::gil_scoped_acquire gil;
  const md::CallId id = given.id();
  nb::object wrapped = nb::cast(new md::Call(std::move(given)), nb::rv_policy::take_ownership);
  current_call = id;
  PyObject* const done = PyObject_CallOneArg(hooks.run, wrapped.ptr());
  current_call = 0;
  if (done == nullptr) {
    PyErr_WriteUnraisable(hooks.run);  // the dispatcher reports all exceptions of user code
  } else {
    Py_DECREF(done);
  }
}

// On the thread that runs the event loop, without the GIL: the main thread raises the exception.
void cancel_call(md::CallId id) {
  if (CallSource* const to = source) return to->cancel(id);
  static_assert(sizeof(void*) >= sizeof id);
  Py_AddPendingCall(
      [](void* call) {
        if (current_call != reinterpret_cast<md::CallId>(call)) return 0;
        PyErr_SetString(hooks.cancelled_type, "the call was cancelled");
        return -1;
      },
      reinterpret_cast<void*>(id));
}

void call_python(PyObject* function) {
  const nb::gil_scoped_acquire gil;
  PyObject* const done = PyObject_CallNoArgs(function);
  if (done == nullptr) throw nb::python_error();
  Py_DECREF(done);
}

void set_host(nb::object on_run, nb::object on_assigned, nb::object on_leave,
              nb::object cancelled_type, const std::string& language) {
  hooks = {on_run.release().ptr(), on_assigned.release().ptr(), on_leave.release().ptr(),
           cancelled_type.release().ptr()};
  md::Host host;
  host.run = &run;
  host.cancel = &cancel_call;
  host.before_fork = [] {
    forking = PyGILState_Ensure();
    PyOS_BeforeFork();
  };
  host.after_fork_in_parent = [] {
    PyOS_AfterFork_Parent();
    PyGILState_Release(forking);
  };
  host.after_fork_in_child = [] {
    PyOS_AfterFork_Child();
    PyGILState_Release(forking);
  };
  host.assigned = [] { call_python(hooks.assigned); };
  host.leave = [] { call_python(hooks.leave); };
  host.language = language;
  md::set_host(std::move(host));
}

// Without a number of CPUs, the driver joins the running cluster.
void init(std::optional<double> num_cpus, const std::vector<std::string>& command,
          const std::map<std::string, std::string>& fork_server_env, const std::string& job_name) {
  mobula::InitOptions options{.job_name = job_name};
  if (num_cpus) {
    options.address = "local";
    options.num_cpus = *num_cpus;
  }
  unlocked([&] {
    cluster.emplace(md::init(options, {.command = command, .fork_server_env = fork_server_env}));
  });
}

}  // namespace

NB_MODULE(mobula_host, m) {
  bind_neutral_values(m);
  nb::class_<Buffer>(m, "Buffer", nb::type_slots(buffer_slots));
  nb::class_<mobula::AnyRef>(m, "Ref");
  nb::class_<mobula::AnyActor>(m, "Actor");
  nb::class_<md::Call>(m, "Call")
      .def_prop_ro("name", [](const md::Call& c) { return std::string(c.callable().name); })
      .def_prop_ro("class_name",
                   [](const md::Call& c) { return std::string(c.callable().class_name); })
      .def_prop_ro("kind", [](const md::Call& c) { return static_cast<int>(c.callable().kind); })
      .def_prop_ro("id", &md::Call::id)
      .def_prop_ro("streaming", [](const md::Call& c) { return c.returns().streaming; })
      .def_prop_ro("num_returns", [](const md::Call& c) { return c.returns().count; })
      .def_prop_ro("attempt", [](const md::Call& c) { return c.context()->attempt; })
      .def_prop_ro("cancelled", &md::Call::cancelled)
      .def_prop_ro("by_program", [](const md::Call& c) { return c.caller().by_program; })
      .def_prop_ro("language", [](const md::Call& c) { return std::string(c.caller().language); })
      .def("arguments",
           [](const md::Call& c) {
             nb::list all;
             for (const auto& each : c.arguments()) all.append(to_python(each));
             return all;
           })
      .def("actor", [](const md::Call& c) { return nb::borrow(static_cast<PyObject*>(c.self())); })
      .def("created", [](md::Call& c, nb::object actor) { c.created(own_actor(actor)); })
      .def("give",
           [](md::Call& c, std::size_t index, nb::object given) {
             if (nb::isinstance<Neutral>(given)) {
               const md::Payload value = payload_of(given);
               return unlocked([&] { return c.give(index, value); });
             }
             const Value value(nb::cast<nb::tuple>(given));
             return unlocked([&] { return c.give(index, value.payload()); });
           })
      .def("fail",
           [](md::Call& c, std::string message, std::string type, nb::bytes pickled,
              bool may_retry) {
             md::Failure failure;
             failure.record.message = std::move(message);
             failure.record.remote_type = std::move(type);
             const auto* first = static_cast<const std::byte*>(pickled.data());
             failure.record.exception_bytes.assign(first, first + pickled.size());
             failure.may_retry = may_retry;
             c.fail(std::move(failure));
           })
      .def("exit_actor", &md::Call::exit_actor)
      .def("done", &md::Call::done);
  nb::class_<mobula::CompletionQueue>(m, "Queue")
      .def("__init__", [](mobula::CompletionQueue* at) { new (at) mobula::CompletionQueue(); })
      .def("fd", &mobula::CompletionQueue::fd)
      .def("add", [](mobula::CompletionQueue& queue, const mobula::AnyRef& ref,
                     std::uint64_t token) { unlocked([&] { queue.add(ref, token); }); })
      .def(
          "take",
          [](mobula::CompletionQueue& queue, double timeout) {
            std::array<std::uint64_t, 256> tokens{};
            const auto count =
                interruptible([&] { return queue.take(tokens, mobula::Duration(timeout)); });
            return std::vector<std::uint64_t>(tokens.begin(), tokens.begin() + count);
          },
          nb::arg("timeout") = 0.0);
  nb::class_<CallSource>(m, "CallSource").def("fd", &CallSource::fd).def("take", &CallSource::take);
  // From now on, methods are not run but added to the source.
  m.def(
      "open_source",
      [] {
        source = new CallSource();
        return source.load();
      },
      nb::rv_policy::reference);
  m.def("interrupt_on", &interrupt_on);
  m.def("waits", [] { return waits.load(); });
  m.def("set_host", &set_host);
  m.def("init", &init, nb::arg("num_cpus").none(), nb::arg("command"), nb::arg("fork_server_env"),
        nb::arg("job_name"));
  m.def("shutdown", [] { unlocked([] { cluster.reset(); }); });
  m.def("submit", &submit, nb::arg("name"), nb::arg("given"), nb::arg("num_returns") = 1,
        nb::arg("retry_exceptions") = false, nb::arg("env") = std::map<std::string, std::string>(),
        nb::arg("streaming") = false, nb::arg("program") = "", nb::arg("num_cpus") = 1.0,
        nb::arg("max_retries") = 3);
  m.def("next", &next);
  m.def("create", &create);
  m.def("call", &call);
  m.def("put", &put);
  m.def("get", &get);
  m.def("wait", [](const std::vector<mobula::AnyRef>& refs, int num_returns, double timeout) {
    return interruptible([&] {
      return md::wait(refs, {.num_returns = num_returns, .timeout = mobula::Duration(timeout)});
    });
  });
  m.def("cancel", [](const mobula::AnyRef& ref) { unlocked([&] { md::cancel(ref); }); });
  m.def("kill", [](const mobula::AnyActor& actor) { unlocked([&] { md::kill(actor); }); });
  m.def("get_actor",
        [](const std::string& name, const std::string& class_name, const std::string& name_space) {
          return unlocked([&] { return md::get_actor(name, name_space, class_name); });
        });
  m.def("seed", [] { return mobula::current().seed(); });
}
