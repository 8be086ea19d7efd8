// The binding of the step engine. Memory arrives as addresses (uintptr_t) of arrays that Python
// holds and has checked.
#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>

#include "core.h"
#include "engine.h"

namespace nb = nanobind;
using namespace subquad;

namespace {

// The fields of Spec in order.
Spec spec_of(nb::tuple f) {
  const auto n = [&](int i) { return nb::cast<int32_t>(f[i]); };
  Spec s{n(0), n(1), n(2), n(3), n(4), n(5), n(6), n(7), n(8), Positions(n(9)), Phi(n(10)),
         Weights(n(11)), n(12), n(13), nb::cast<float>(f[14])};
  return s;
}

// temperature, top_k, top_p, min_p, repetition_penalty, seed, mixture, levels.
Sampling sampling_of(nb::tuple f) {
  return {nb::cast<double>(f[0]), nb::cast<int32_t>(f[1]), nb::cast<double>(f[2]),
          nb::cast<double>(f[3]), nb::cast<double>(f[4]),  nb::cast<uint64_t>(f[5]),
          nb::cast<int32_t>(f[6]), nb::cast<int32_t>(f[7])};
}

template <class T>
T* at(uintptr_t p) {
  return reinterpret_cast<T*>(p);
}

void check(const Engine& e, int32_t stream) {
  if (!e.alive(stream)) throw std::invalid_argument("no such stream");
}

// Streams exist, no two are one, tokens and positions are inside their tables for `steps` steps.
void check(Engine& e, const std::vector<int32_t>& streams, const int32_t* tokens, int64_t steps) {
  std::vector<char> met;
  for (size_t i = 0; i < streams.size(); ++i) {
    check(e, streams[i]);
    met.resize(std::max<size_t>(met.size(), streams[i] + 1));
    if (met[streams[i]]++) throw std::invalid_argument("a stream is named twice");
    if (tokens[i] < 0 || tokens[i] >= e.spec.inputs) throw std::invalid_argument("no such token");
    if (e.spec.positions == Positions::learned &&
        e.position(streams[i]) + steps > e.spec.length)
      throw std::invalid_argument("a position is beyond those learned");
  }
}

}  // namespace

void bind_engine(nb::module_& m) {
  m.def("block_bytes", [](nb::tuple spec) { return Plan(spec_of(spec)).bytes(); });
  m.def("state_floats", [](nb::tuple spec) { return state_floats(spec_of(spec)); });
  m.def("uniform", uniform);
  m.def("draw", [](nb::tuple how, uintptr_t outputs, int64_t n, uintptr_t seen, uint64_t sample,
                   uint64_t step) {
    std::vector<double> p(n);
    std::vector<int32_t> order(n);
    return draw(sampling_of(how), at<float>(outputs), n, at<uint8_t>(seen), sample, step, p.data(),
                order.data());
  });
  nb::class_<Engine>(m, "Engine")
      .def("__init__", [](Engine* e, nb::tuple spec, uintptr_t block, int threads) {
        new (e) Engine(spec_of(spec), at<char>(block), threads);
      })
      .def("add", &Engine::add)
      .def("clone", [](Engine& e, int32_t s) { return check(e, s), e.clone(s); })
      .def("remove", [](Engine& e, int32_t s) { check(e, s), e.remove(s); })
      .def("state", [](Engine& e, int32_t s) {
        return check(e, s), reinterpret_cast<uintptr_t>(e.state(s));
      })
      .def("position", [](Engine& e, int32_t s) { return check(e, s), e.position(s); })
      .def("set_position", [](Engine& e, int32_t s, int64_t p) { check(e, s), e.position(s) = p; })
      .def("reserve", &Engine::reserve)
      .def("step", [](Engine& e, std::vector<int32_t> streams, uintptr_t tokens) {
        check(e, streams, at<int32_t>(tokens), 1);
        nb::gil_scoped_release release;
        e.step(streams.size(), streams.data(), at<int32_t>(tokens));
        return reinterpret_cast<uintptr_t>(e.logits());
      })
      .def("run", [](Engine& e, std::vector<int32_t> streams, uintptr_t tokens, int64_t steps,
                     nb::tuple how, uintptr_t samples, uintptr_t first, uintptr_t seen,
                     uintptr_t drawn) {
        check(e, streams, at<int32_t>(tokens), steps);
        const Sampling sampling = sampling_of(how);
        nb::gil_scoped_release release;
        e.run(streams.size(), streams.data(), at<int32_t>(tokens), steps, sampling,
              at<uint64_t>(samples), at<uint64_t>(first), at<uint8_t>(seen), at<int32_t>(drawn));
      });
}
