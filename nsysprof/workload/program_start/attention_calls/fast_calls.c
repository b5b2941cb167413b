/* Runs torch's scaled_dot_product_attention in a range, for calls that attention_calls.py has described before, and calls
   of modules in theirs, for layer_recorder.py.

   It does what `wrap_sdpa` there does, through which every call still goes that is not known here: among the rest of a program, a hundred lines of Python take five times as long as in a loop, because the caches are cold.

   It uses Python's limited API alone, so that one file serves every version from 3.11 on, and of torch what DLPack 1.3
   defines: a table of C functions (torch 2.10 and newer) that gives the type and sizes of a tensor without a Python
   object for each. Everything here runs with the GIL held. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>
#include <structmember.h>
#include <time.h>

#include "nvtx_client.h"

/* Of DLPack 1.3, https://dmlc.github.io/dlpack/latest/c_api.html. */
typedef struct {
    uint8_t code, bits;
    uint16_t lanes;
} Type;

typedef struct {
    void *data;
    int32_t device_type, device_id, dimensions;
    Type type;
    int64_t *sizes, *strides;
    uint64_t offset;
} Tensor;

typedef struct {
    uint32_t major, minor;
    void *older, *allocate, *to_managed, *from_managed;
    int (*describe)(void *object, Tensor *tensor); /* -1 and an exception where it cannot */
    void *stream;
} Exchange;

enum { QUERY, KEY, VALUE, MASK, DROPOUT, CAUSAL, SCALE, GQA, ARGUMENTS };
#define OTHERS 4     /* the last of them */
#define POSITIONAL 6 /* the first of them; torch takes the others by name alone */
#define DIMENSIONS 5
#define MOST_FORMS 20000
#define SLOTS 65536 /* a power of two, more than twice MOST_FORMS */
/* One call in so many is timed, since reading the clock takes longer than much else; of the first calls more. The number
   has no small divisors, so that all layers of a model have their turn. */
#define EVERY 31
#define EVERY_AT_FIRST 7
#define FIRST 60

static const char *const NAMES[ARGUMENTS] = {"query",     "key",       "value", "attn_mask",
                                             "dropout_p", "is_causal", "scale", "enable_gqa"};

/* What is compared of a tensor; needs_gradient of masks alone. All zero: no tensor. */
typedef struct {
    int32_t dimensions;
    Type type;
    int64_t needs_gradient;
    int64_t sizes[DIMENSIONS];
} Facts;

/* What calls have in common that are counted together. It is compared byte by byte, so that unused ones are zero. */
typedef struct {
    PyObject *code; /* of the caller */
    int64_t place;  /* in it */
    Facts query, key, mask;
    uint64_t others[OTHERS]; /* constants of Python by their address, and the bits of numbers; 0 for none */
    int64_t are_numbers;     /* a bit for each of the others */
} Key;

/* known: the Seen of seen_call.py; NULL where calls go Python's way. Forms are never freed, and hold their code. */
typedef struct {
    Key key;
    PyObject *known, *name, *node_type, *before, *after;
    const char *text; /* of the name */
    uint64_t forward, training;
} Form;

typedef struct {
    PyObject_HEAD PyObject *original, *slow, *learn, *watch, *add_time, *push, *pop, *has_autocast, *has_mode, *is_answered,
        *tensor;
    const Exchange *exchange;
    int marker; /* how ranges are opened */
    PyObject *names[ARGUMENTS], *requires_grad, *grad_fn, *register_prehook, *register_hook;
    uint64_t count, due;
    int64_t forms;
    Form *slots[SLOTS];
} Calls;

/* CPython has these since before 3.11, its limited API only later or not at all. */
typedef PyObject *(*Vectorcall)(PyObject *, PyObject *const *, size_t, PyObject *);
static Vectorcall call, call_method;
static int (*place_of)(PyFrameObject *);

/* Ranges of a FastCalls are opened by the functions of this module, by those of Python that it is given, or not at all. */
enum { OF_PYTHON, OF_NVTX, NONE };

static PyObject *push(PyObject *module, PyObject *name) {
    (void)module;
    const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
    if (text == NULL)
        return NULL;
    nvtx_push(text);
    Py_RETURN_NONE;
}

static PyObject *pop(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    nvtx_pop();
    Py_RETURN_NONE;
}

static PyObject *do_nothing(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    Py_RETURN_NONE;
}

/* Return how ranges are opened by a function. */
static int marker_of(PyObject *function) {
    if (!PyCFunction_CheckExact(function))
        return OF_PYTHON;
    PyCFunction found = PyCFunction_GetFunction(function);
    return found == push ? OF_NVTX : found == do_nothing ? NONE : OF_PYTHON;
}

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time); /* as time.perf_counter_ns */
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

/* Drop an exception of what records calls, which is none of the program's. Return -1 where one such as KeyboardInterrupt
   stays, by which the program is to end. */
static int forgive(void) {
    if (PyErr_Occurred() != NULL && PyErr_ExceptionMatches(PyExc_Exception))
        PyErr_Clear();
    return PyErr_Occurred() == NULL ? 0 : -1;
}

enum { TAKEN, UNKNOWN, WRONG };

/* Put the arguments of a call in the order of NAMES. Return WRONG for a call that torch refuses, and UNKNOWN for one that
   Python must look at. */
static int take_arguments(Calls *calls, PyObject *const *args, Py_ssize_t count, PyObject *by_name, PyObject **taken) {
    if (count > POSITIONAL)
        return WRONG;
    memcpy(taken, args, (size_t)count * sizeof *taken);
    Py_ssize_t named = by_name == NULL ? 0 : PyTuple_Size(by_name);
    for (Py_ssize_t i = 0; i < named; i++) {
        PyObject *name = PyTuple_GetItem(by_name, i);
        int which = 0;
        while (which < ARGUMENTS && calls->names[which] != name) /* interned, as names in a program are */
            which++;
        if (which == ARGUMENTS)
            return UNKNOWN;
        if (taken[which] != NULL)
            return WRONG;
        taken[which] = args[count + i];
    }
    return taken[QUERY] != NULL && taken[KEY] != NULL && taken[VALUE] != NULL ? TAKEN : WRONG;
}

/* Read what is compared of a tensor. Return 0 for anything else, such as a subclass. */
static int read_facts(Calls *calls, PyObject *object, Facts *facts) {
    if ((PyObject *)Py_TYPE(object) != calls->tensor)
        return 0;
    Tensor tensor;
    if (calls->exchange->describe(object, &tensor) != 0) {
        forgive();
        return 0;
    }
    if (tensor.dimensions < 1 || tensor.dimensions > DIMENSIONS)
        return 0;
    facts->dimensions = tensor.dimensions;
    facts->type = tensor.type;
    memcpy(facts->sizes, tensor.sizes, (size_t)tensor.dimensions * sizeof *tensor.sizes);
    return 1;
}

/* Return whether an attribute is True; -1 with an exception. */
static int is_true(PyObject *object, PyObject *attribute) {
    PyObject *value = PyObject_GetAttr(object, attribute);
    if (value == NULL)
        return -1;
    Py_DECREF(value);
    return value == Py_True;
}

/* Return whether Python said anything but False, and drop what it said. */
static int is_maybe(PyObject *found) {
    if (found == NULL)
        forgive();
    Py_XDECREF(found);
    return found != Py_False;
}

/* Return whether autocast would change the type of a tensor of full precision. */
static int may_be_cast(Calls *calls, const Facts *query) {
    if (query->type.code != 2 || query->type.bits != 32)
        return 0;
    return is_maybe(call(calls->has_autocast, NULL, 0, NULL));
}

/* Return whether a mode of the program sees the call, which is to be told of it by the function that it knows. */
static int may_be_answered(Calls *calls, PyObject *const *taken) {
    PyObject *found = call(calls->has_mode, NULL, 0, NULL);
    if (found == Py_True) {
        Py_DECREF(found);
        PyObject *mask = taken[MASK] == NULL ? Py_None : taken[MASK];
        PyObject *tensors[] = {taken[QUERY], taken[KEY], taken[VALUE], mask};
        found = call(calls->is_answered, tensors, 4, NULL);
    }
    return is_maybe(found);
}

/* Make the key of a call, but for the place that it comes from. Return 0 for a call that Python must look at. */
static int read_call(Calls *calls, PyObject *const *taken, Key *key) {
    if (!read_facts(calls, taken[QUERY], &key->query) || !read_facts(calls, taken[KEY], &key->key))
        return 0;
    if ((PyObject *)Py_TYPE(taken[VALUE]) != calls->tensor) /* its class may answer the call */
        return 0;
    if (may_be_answered(calls, taken) || may_be_cast(calls, &key->query))
        return 0;
    PyObject *mask = taken[MASK];
    if (mask != NULL && mask != Py_None) {
        if (!read_facts(calls, mask, &key->mask))
            return 0;
        key->mask.needs_gradient = is_true(mask, calls->requires_grad);
        if (key->mask.needs_gradient < 0) {
            forgive();
            return 0;
        }
    }
    for (int i = 0; i < OTHERS; i++) {
        PyObject *value = taken[DROPOUT + i];
        if (value == NULL || value == Py_None || value == Py_True || value == Py_False) {
            key->others[i] = (uint64_t)(uintptr_t)value;
        } else if (PyFloat_CheckExact(value)) {
            double number = PyFloat_AsDouble(value);
            memcpy(&key->others[i], &number, sizeof number);
            key->are_numbers |= INT64_C(1) << i;
        } else {
            return 0;
        }
    }
    return 1;
}

/* Return where a form with this key is, or where it belongs. */
static Form **find_slot(Calls *calls, const Key *key) {
    uint64_t words[sizeof *key / 8], hash = 0;
    memcpy(words, key, sizeof *key);
    for (size_t i = 0; i < sizeof *key / 8; i++) {
        hash = (hash ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 32;
    }
    uint64_t slot = hash % SLOTS;
    while (calls->slots[slot] != NULL && memcmp(&calls->slots[slot]->key, key, sizeof *key) != 0)
        slot = (slot + 1) % SLOTS;
    return &calls->slots[slot];
}

/* Ask Python for the form of a call that is new here. Return NULL where there is none, or none yet; an exception that is
   set then is the program's. */
static Form *learn(Calls *calls, PyFrameObject *frame, PyObject *const *taken, const Key *key) {
    if (calls->forms >= MOST_FORMS)
        return NULL;
    PyObject *arguments[1 + ARGUMENTS] = {(PyObject *)frame};
    for (int i = 0; i < ARGUMENTS; i++) {
        PyObject *missing = i == DROPOUT || i == CAUSAL ? Py_False : Py_None;
        arguments[1 + i] = taken[i] == NULL ? missing : taken[i];
    }
    PyObject *known = call(calls->learn, arguments, 1 + ARGUMENTS, NULL);
    Form **slot = find_slot(calls, key); /* only now: while Python ran, other threads may have learned forms */
    Form *form = known == NULL || known == Py_None ? NULL : PyMem_Calloc(1, sizeof *form);
    PyObject *name = form == NULL || known == Py_False ? NULL : PyObject_GetAttrString(known, "forward_name");
    if (form == NULL || (known != Py_False && name == NULL) || *slot != NULL) {
        PyMem_Free(form);
        Py_XDECREF(name);
        Py_XDECREF(known);
        return forgive() != 0 ? NULL : *slot;
    }
    form->key = *key;
    Py_INCREF(key->code);
    if (known == Py_False) {
        Py_DECREF(known);
    } else {
        form->known = known;
        form->name = name;
        form->text = PyUnicode_AsUTF8AndSize(name, NULL);
        if (form->text == NULL)
            PyErr_Clear();
    }
    calls->forms++;
    return *slot = form;
}

/* Return the form of a call; NULL for one that goes Python's way, or with an exception. */
static Form *find_form(Calls *calls, PyObject *const *taken) {
    Key key;
    memset(&key, 0, sizeof key);
    PyFrameObject *frame = PyEval_GetFrame();
    if (frame == NULL || !read_call(calls, taken, &key))
        return NULL;
    key.code = (PyObject *)PyFrame_GetCode(frame);
    key.place = place_of(frame);
    Form *form = *find_slot(calls, &key);
    if (form == NULL)
        form = learn(calls, frame, taken, &key);
    Py_DECREF(key.code); /* the frame holds it */
    return form == NULL || form->known == NULL ? NULL : form;
}

/* Let Python look along the graph of a result, and keep what it found for the next of this kind. */
static void watch_in_python(Calls *calls, Form *form, PyObject *node, PyObject *const *taken) {
    PyObject *mask = taken[MASK] == NULL ? Py_None : taken[MASK];
    PyObject *arguments[] = {form->known, node, taken[QUERY], taken[KEY], taken[VALUE], mask};
    PyObject *done = call(calls->watch, arguments, 6, NULL);
    Py_XDECREF(done);
    Py_CLEAR(form->node_type);
    Py_CLEAR(form->before);
    Py_CLEAR(form->after);
    if (done == NULL) {
        forgive();
        return;
    }
    form->node_type = PyObject_GetAttrString(form->known, "one_node");
    form->before = PyObject_GetAttrString(form->known, "before");
    form->after = PyObject_GetAttrString(form->known, "after");
}

/* Have a range open in the backward pass of a call, where it has one. Return -1 with an exception. */
static int watch_backward(Calls *calls, Form *form, PyObject *result, PyObject *const *taken) {
    if (form->node_type == NULL) { /* no call had a backward pass yet; this takes half as long as to ask for the node */
        int needed = is_true(result, calls->requires_grad);
        if (needed <= 0)
            return forgive(); /* a result without that attribute is no tensor */
    }
    PyObject *node = PyObject_GetAttr(result, calls->grad_fn);
    if (node == NULL || node == Py_None) {
        Py_XDECREF(node);
        return forgive();
    }
    if ((PyObject *)Py_TYPE(node) == form->node_type && form->before != NULL && form->after != NULL) {
        PyObject *before[] = {node, form->before}, *after[] = {node, form->after};
        Py_XINCREF(before[1]); /* another thread may exchange them meanwhile */
        Py_XINCREF(after[1]);
        form->training++;
        Py_XDECREF(call_method(calls->register_prehook, before, 2, NULL));
        if (!PyErr_Occurred())
            Py_XDECREF(call_method(calls->register_hook, after, 2, NULL));
        Py_XDECREF(before[1]);
        Py_XDECREF(after[1]);
    } else {
        watch_in_python(calls, form, node, taken);
    }
    Py_DECREF(node);
    return forgive();
}

static int add_time(Calls *calls, int64_t spent, uint64_t count) {
    PyObject *done = PyObject_CallFunction(calls->add_time, "LLK", (long long)spent, (long long)now(), count);
    Py_XDECREF(done);
    return forgive();
}

/* Open a range. text: its name for C; NULL where that has none. */
static int begin_range(int marker, PyObject *push, PyObject *name, const char *text) {
    if (marker == OF_NVTX && text != NULL)
        nvtx_push(text);
    if (marker != OF_PYTHON)
        return 0;
    PyObject *opened = call(push, &name, 1, NULL);
    Py_XDECREF(opened);
    return opened == NULL ? -1 : 0;
}

/* Close a range; an exception that is set stays so. */
static int end_range(int marker, PyObject *pop) {
    if (marker == OF_NVTX)
        nvtx_pop();
    if (marker != OF_PYTHON)
        return 0;
    PyObject *kind, *value, *trace;
    PyErr_Fetch(&kind, &value, &trace);
    PyObject *closed = call(pop, NULL, 0, NULL);
    Py_XDECREF(closed);
    if (kind != NULL)
        PyErr_Restore(kind, value, trace);
    return closed == NULL ? -1 : 0;
}

static PyObject *attention(PyObject *module, PyObject *const *args, Py_ssize_t given, PyObject *by_name) {
    Calls *calls = *(Calls **)PyModule_GetState(module);
    PyObject *taken[ARGUMENTS] = {NULL};
    int64_t began = calls->count + 1 >= calls->due ? now() : 0;
    int64_t known = calls->forms;
    int how = take_arguments(calls, args, given, by_name, taken);
    if (how == WRONG)
        return call(calls->original, args, (size_t)given, by_name);
    Form *form = how == TAKEN ? find_form(calls, taken) : NULL;
    if (form == NULL)
        return PyErr_Occurred() != NULL ? NULL : call(calls->slow, args, (size_t)given, by_name);
    if (known != calls->forms) /* descriptions are counted by themselves */
        began = 0;
    uint64_t count = ++calls->count;
    form->forward++;
    if (begin_range(calls->marker, calls->push, form->name, form->text) != 0)
        return NULL;
    int64_t called = began ? now() : 0;
    PyObject *result = call(calls->original, args, (size_t)given, by_name);
    int64_t returned = began ? now() : 0;
    if (end_range(calls->marker, calls->pop) != 0 || result == NULL || watch_backward(calls, form, result, taken) != 0)
        goto failed;
    if (began) {
        calls->due = count + (count > FIRST ? EVERY : EVERY_AT_FIRST);
        if (add_time(calls, called - began + now() - returned, count) != 0)
            goto failed;
    }
    return result;
failed:
    Py_XDECREF(result);
    return NULL;
}

static PyMethodDef ATTENTION = {"scaled_dot_product_attention", (PyCFunction)(void (*)(void))attention,
                                METH_FASTCALL | METH_KEYWORDS, NULL};

/* Give the function the description that torch's has. */
static void copy_description(Calls *calls) {
    PyObject *text = PyObject_GetAttrString(calls->original, "__doc__");
    const char *found = text != NULL && PyUnicode_Check(text) ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    if (found != NULL && ATTENTION.ml_doc == NULL) /* for good */
        ATTENTION.ml_doc = strdup(found);
    Py_XDECREF(text);
    PyErr_Clear();
}

/* A function of C is pickled by its name if it belongs to a module, and by what it belongs to otherwise. */
static struct PyModuleDef OWNER = {PyModuleDef_HEAD_INIT, "torch.nn.functional", NULL, sizeof(PyObject *), NULL, NULL, NULL, NULL, NULL};

static PyObject *make_function(PyObject *self, PyObject *unused) {
    (void)unused;
    PyObject *owner = PyModule_Create(&OWNER), *name = PyUnicode_FromString("torch.nn.functional");
    PyObject *made = NULL;
    if (owner != NULL && name != NULL) {
        Py_INCREF(self);
        *(PyObject **)PyModule_GetState(owner) = self;
        made = PyCFunction_NewEx(&ATTENTION, owner, name);
    }
    Py_XDECREF(owner);
    Py_XDECREF(name);
    return made;
}

/* Return (form, calls, calls with a backward pass) of every form since the last time. */
static PyObject *collect(PyObject *self, PyObject *unused) {
    (void)unused;
    Calls *calls = (Calls *)self;
    PyObject *found = PyList_New(0);
    for (int64_t i = 0; found != NULL && i < SLOTS; i++) {
        Form *form = calls->slots[i];
        if (form == NULL || form->known == NULL)
            continue;
        PyObject *row = Py_BuildValue("OKK", form->known, form->forward, form->training);
        if (row == NULL || PyList_Append(found, row) != 0)
            Py_CLEAR(found);
        else
            form->forward = form->training = 0;
        Py_XDECREF(row);
    }
    return found;
}

/* Forget all forms. They stay in memory, since another thread may be in a call of one. */
static PyObject *clear(PyObject *self, PyObject *unused) {
    (void)unused;
    Calls *calls = (Calls *)self;
    memset(calls->slots, 0, sizeof calls->slots);
    calls->forms = 0;
    calls->count = 0;
    calls->due = 2; /* the first is described */
    Py_RETURN_NONE;
}

static int start(PyObject *self, PyObject *arguments, PyObject *by_name) {
    Calls *calls = (Calls *)self;
    PyObject *exchange;
    if (by_name != NULL ||
        !PyArg_ParseTuple(arguments, "OOOOOOOOOOOO", &calls->original, &calls->slow, &calls->learn, &calls->watch,
                          &calls->add_time, &calls->push, &calls->pop, &calls->has_autocast, &calls->has_mode,
                          &calls->is_answered, &calls->tensor, &exchange))
        return -1;
    Py_INCREF(exchange);
    for (PyObject **kept = &calls->original; kept <= &calls->tensor; kept++)
        Py_INCREF(*kept);
    calls->exchange = PyCapsule_GetPointer(exchange, "dlpack_exchange_api");
    if (calls->exchange == NULL)
        return -1;
    if (calls->exchange->major != 1 || calls->exchange->describe == NULL) {
        PyErr_SetString(PyExc_ValueError, "another version of DLPack");
        return -1;
    }
    for (int i = 0; i < ARGUMENTS; i++)
        calls->names[i] = PyUnicode_InternFromString(NAMES[i]);
    calls->requires_grad = PyUnicode_InternFromString("requires_grad");
    calls->grad_fn = PyUnicode_InternFromString("grad_fn");
    calls->register_prehook = PyUnicode_InternFromString("register_prehook");
    calls->register_hook = PyUnicode_InternFromString("register_hook");
    calls->due = 2;
    calls->marker = marker_of(calls->push);
    if (PyErr_Occurred() == NULL)
        copy_description(calls);
    return PyErr_Occurred() ? -1 : 0;
}

/* What autograd calls before and after a node. */
typedef struct {
    PyObject_HEAD PyObject *push, *pop, *name;
    const char *text;
    int marker;
    uint64_t count;
    int64_t open; /* ranges: the last node of a call may run without the first, in a second derivative */
} Hooks;

static PyObject *before(PyObject *self, PyObject *gradients) {
    (void)gradients;
    Hooks *hooks = (Hooks *)self;
    hooks->count++;
    hooks->open++;
    if (hooks->marker == OF_PYTHON)
        return call(hooks->push, &hooks->name, 1, NULL);
    if (hooks->marker == OF_NVTX)
        nvtx_push(hooks->text);
    Py_RETURN_NONE;
}

static PyObject *after(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
    (void)arguments;
    (void)count;
    Hooks *hooks = (Hooks *)self;
    if (hooks->open == 0)
        Py_RETURN_NONE;
    hooks->open--;
    if (hooks->marker == OF_PYTHON)
        return call(hooks->pop, NULL, 0, NULL);
    if (hooks->marker == OF_NVTX)
        nvtx_pop();
    Py_RETURN_NONE;
}

static PyMethodDef BEFORE = {"before", before, METH_O, NULL};
static PyMethodDef AFTER = {"after", (PyCFunction)(void (*)(void))after, METH_FASTCALL, NULL};

static PyObject *make_hooks(PyObject *self, PyObject *unused) {
    (void)unused;
    return Py_BuildValue("NN", PyCFunction_NewEx(&BEFORE, self, NULL), PyCFunction_NewEx(&AFTER, self, NULL));
}

static int start_hooks(PyObject *self, PyObject *arguments, PyObject *by_name) {
    Hooks *hooks = (Hooks *)self;
    if (by_name != NULL || !PyArg_ParseTuple(arguments, "OOU", &hooks->push, &hooks->pop, &hooks->name))
        return -1;
    Py_INCREF(hooks->push);
    Py_INCREF(hooks->pop);
    Py_INCREF(hooks->name);
    hooks->marker = marker_of(hooks->push);
    hooks->text = PyUnicode_AsUTF8AndSize(hooks->name, NULL);
    return hooks->text == NULL ? -1 : 0;
}

static PyMethodDef METHODS_OF_HOOKS[] = {
    {"make_functions", make_hooks, METH_NOARGS, "Return what to call before and after a node."},
    {NULL, NULL, 0, NULL},
};
static PyMemberDef COUNTS_OF_HOOKS[] = {
    {"count", T_ULONGLONG, offsetof(Hooks, count), READONLY, "How often a range was opened."},
    {NULL, 0, 0, 0, NULL},
};
static PyType_Slot SLOTS_OF_HOOKS[] = {
    {Py_tp_doc, "A range around the nodes of a call in the backward pass."},
    {Py_tp_init, start_hooks},
    {Py_tp_methods, METHODS_OF_HOOKS},
    {Py_tp_members, COUNTS_OF_HOOKS},
    {0, NULL},
};
static PyType_Spec HOOKS = {"fast_calls.Hooks", sizeof(Hooks), 0, Py_TPFLAGS_DEFAULT, SLOTS_OF_HOOKS};

/* Stands for autograd's Function._register_hook, which `otherwise` is: keep hooks of here without a handle that could
   remove them, which takes longer to make than all else. */
static PyObject *register_hook(PyObject *otherwise, PyObject *const *arguments, Py_ssize_t count) {
    PyObject *hook = count == 2 ? arguments[1] : NULL;
    PyCFunction found = hook != NULL && PyCFunction_CheckExact(hook) ? PyCFunction_GetFunction(hook) : NULL;
    int is_own = found == before || found == (PyCFunction)(void (*)(void))after;
    if (!is_own || (arguments[0] != Py_None && !PyDict_CheckExact(arguments[0])))
        return call(otherwise, arguments, (size_t)count, NULL);
    PyObject *hooks = arguments[0];
    if (hooks == Py_None)
        hooks = PyDict_New();
    else
        Py_INCREF(hooks);
    PyObject *place = hooks == NULL ? NULL : PyLong_FromVoidPtr(hook), *result = NULL;
    if (place != NULL && PyDict_SetItem(hooks, place, hook) == 0)
        result = PyTuple_Pack(2, hooks, Py_None);
    Py_XDECREF(place);
    Py_XDECREF(hooks);
    return result;
}

static PyMethodDef REGISTER = {"_register_hook", (PyCFunction)(void (*)(void))register_hook, METH_FASTCALL, NULL};

static PyObject *make_register(PyObject *module, PyObject *otherwise) {
    (void)module;
    return PyCFunction_NewEx(&REGISTER, otherwise, NULL);
}

static PyMethodDef METHODS[] = {
    {"make_function", make_function, METH_NOARGS, "Return the function that stands for torch's."},
    {"collect", collect, METH_NOARGS, "Return (form, calls, calls with a backward pass) since the last time."},
    {"clear", clear, METH_NOARGS, "Forget all forms and counts."},
    {NULL, NULL, 0, NULL},
};
static PyMemberDef COUNTS[] = {
    {"count", T_ULONGLONG, offsetof(Calls, count), READONLY, "The number of calls."},
    {NULL, 0, 0, 0, NULL},
};
static PyType_Slot SLOTS_OF_CALLS[] = {
    {Py_tp_doc, "The calls of scaled_dot_product_attention in this process. It is kept to the end of the process."},
    {Py_tp_init, start},
    {Py_tp_methods, METHODS},
    {Py_tp_members, COUNTS},
    {0, NULL},
};
static PyType_Spec CALLS = {"fast_calls.FastCalls", sizeof(Calls), 0, Py_TPFLAGS_DEFAULT, SLOTS_OF_CALLS};

#define NEAR 4096 /* a power of two */

/* The calls of torch's modules, each in the range of its module. slow: the function of Python that stands for `__call__`
   of modules, as everything sees that reads the attribute, such as torch.compile. plain: what runs it; calls of it come
   to run_module first. original: the function before it; None for torch's own, which is done here: its frame costs more
   than all of this. texts: by the number of a module, the name of its range; None for one without. Those that are not
   there are for `slow`, and so is every module with a range while `open` has something in it, or gradients are recorded.
   near: some of `texts`, found with one look at memory, since the caches are cold here as well. */
typedef struct {
    uint64_t number;
    PyObject *text;
} Near;
static struct {
    PyObject *slow, *original, *texts, *open, *has_gradients, *push, *pop, *compiled_name, *torchs_name;
    Vectorcall plain;
    int marker;
    Near near[NEAR];
} modules;

static Near *near_of(uint64_t number) {
    return &modules.near[(number * UINT64_C(0x9e3779b97f4a7c15)) >> 52]; /* of NEAR */
}

/* Return a new reference to what `texts` has of a module; NULL where it has nothing. */
static PyObject *find_text(PyObject *module) {
    uint64_t number = (uint64_t)(uintptr_t)module;
    Near *near = near_of(number);
    if (near->number != number) {
        PyObject *key = PyLong_FromVoidPtr(module), *older = near->text;
        PyObject *text = key == NULL ? NULL : PyDict_GetItemWithError(modules.texts, key);
        Py_XDECREF(key);
        if (text == NULL)
            return NULL;
        Py_INCREF(text);
        near->number = number;
        near->text = text;
        Py_XDECREF(older);
    }
    Py_INCREF(near->text);
    return near->text;
}

static PyObject *run_original(PyObject *const *args, size_t count, PyObject *by_name) {
    if (modules.original != Py_None)
        return call(modules.original, args, count, by_name);
    PyObject *compiled = PyObject_GetAttr(args[0], modules.compiled_name), *result = NULL;
    if (compiled == Py_None)
        result = call_method(modules.torchs_name, args, count, by_name);
    else if (compiled != NULL)
        result = call(compiled, args + 1, count - 1, by_name);
    Py_XDECREF(compiled);
    return result;
}

static PyObject *run_module(PyObject *self, PyObject *const *args, size_t count, PyObject *by_name) {
    if (self != modules.slow) /* of an earlier recording */
        return modules.plain(self, args, count, by_name);
    count &= ~((size_t)1 << (8 * sizeof count - 1)); /* the bit that says that more may be written before them */
    PyObject *text = count > 0 ? find_text(args[0]) : NULL, *result = NULL;
    int is_fast = text != NULL;
    if (is_fast && text != Py_None && modules.has_gradients != Py_None) {
        PyObject *found = PyDict_Size(modules.open) ? NULL : call(modules.has_gradients, NULL, 0, NULL);
        Py_XDECREF(found);
        is_fast = found == Py_False;
    }
    const char *name = is_fast && text != Py_None ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    PyErr_Clear();
    if (!is_fast) {
        result = modules.plain(self, args, count, by_name);
    } else if (name == NULL) {
        result = run_original(args, count, by_name);
    } else if (begin_range(modules.marker, modules.push, text, name) == 0) {
        result = run_original(args, count, by_name);
        if (end_range(modules.marker, modules.pop) != 0)
            Py_CLEAR(result);
    }
    Py_XDECREF(text);
    return result;
}

/* Let calls of a function of Python come to run_module. The address of what runs it is somewhere in the object, which
   tells no more of itself before Python 3.12. Return False where it is not. */
static PyObject *watch_modules(PyObject *module, PyObject *arguments) {
    (void)module;
    Vectorcall (*get)(PyObject *) = NULL, plain, run = run_module;
    PyObject *slow;
    *(void **)&get = dlsym(RTLD_DEFAULT, "PyVectorcall_Function");
    if (!PyArg_ParseTuple(arguments, "OOOOOOO", &slow, &modules.original, &modules.texts, &modules.open,
                          &modules.has_gradients, &modules.push, &modules.pop))
        return NULL;
    PyObject *size = PyObject_GetAttrString((PyObject *)Py_TYPE(slow), "__basicsize__");
    size_t places = size == NULL ? 0 : PyLong_AsSize_t(size) / sizeof plain, place = 0;
    Py_XDECREF(size);
    plain = get == NULL ? NULL : get(slow);
    while (place < places && memcmp((Vectorcall *)slow + place, &plain, sizeof plain) != 0)
        place++;
    if (PyErr_Occurred() || plain == NULL || place >= places)
        return PyErr_Occurred() ? NULL : PyBool_FromLong(0);
    modules.slow = slow;
    modules.plain = plain == run_module ? modules.plain : plain;
    modules.compiled_name = PyUnicode_InternFromString("_compiled_call_impl");
    modules.torchs_name = PyUnicode_InternFromString("_call_impl");
    for (PyObject **kept = &modules.slow; kept <= &modules.pop; kept++)
        Py_INCREF(*kept); /* for good */
    modules.marker = marker_of(modules.push);
    memset(modules.near, 0, sizeof modules.near);
    memcpy((Vectorcall *)slow + place, &run, sizeof run);
    return PyBool_FromLong(1);
}

/* Forget a module, of which `texts` has nothing more, or something else. */
static PyObject *forget_module(PyObject *module, PyObject *number) {
    (void)module;
    uint64_t forgotten = PyLong_AsUnsignedLongLong(number);
    if (near_of(forgotten)->number == forgotten)
        near_of(forgotten)->number = 0;
    return PyErr_Occurred() ? NULL : Py_BuildValue("");
}

static PyMethodDef FUNCTIONS[] = {
    {"push", push, METH_O, "Open a range of NVTX."},
    {"pop", pop, METH_NOARGS, "Close the last range of NVTX."},
    {"open_nothing", do_nothing, METH_O, "Do nothing."},
    {"close_nothing", do_nothing, METH_NOARGS, "Do nothing."},
    {"watch_modules", watch_modules, METH_VARARGS, "Run calls of modules in ranges."},
    {"forget_module", forget_module, METH_O, "Forget the number of a module."},
    {"make_register", make_register, METH_O, "Return what registers hooks of here without a handle."},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "fast_calls", NULL, -1, FUNCTIONS, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_fast_calls(void) {
    *(void **)&call = dlsym(RTLD_DEFAULT, "PyObject_Vectorcall");
    *(void **)&call_method = dlsym(RTLD_DEFAULT, "PyObject_VectorcallMethod");
    *(void **)&place_of = dlsym(RTLD_DEFAULT, "PyFrame_GetLasti");
    if (call == NULL || call_method == NULL || place_of == NULL) {
        PyErr_SetString(PyExc_ImportError, "this Python lacks what the fast calls need");
        return NULL;
    }
    nvtx_start();
    PyObject *module = PyModule_Create(&MODULE);
    PyType_Spec *specs[] = {&CALLS, &HOOKS};
    for (int i = 0; module != NULL && i < 2; i++) {
        PyObject *type = PyType_FromSpec(specs[i]);
        if (type == NULL || PyModule_AddObject(module, strchr(specs[i]->name, '.') + 1, type) != 0) {
            Py_XDECREF(type);
            Py_CLEAR(module);
        }
    }
    return module;
}
