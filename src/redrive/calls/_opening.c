/* Opens the scope of a guarded call: opening_in_python.py, which says what it must do, in compiled form.

   Two thirds of what a guarded call costs when it succeeds are spent here: reading the clock, putting the scope into
   the context, and asking asyncio which task this is. From Python each of these is a call of its own. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>
#ifdef __linux__
#include <time.h>
#endif

/* The fields of a scope; see scope.py. */
enum { OWNER, STARTED };

typedef struct {
    PyObject *current;       /* scope.CURRENT */
    PyObject *monotonic;     /* determinism.clock.SYSTEM_CLOCK.monotonic */
    PyCFunction shortcut;    /* what that calls, where `system_time` is the same; or NULL */
    PyObject *under_trio;    /* determinism.event_loops.under_trio */
    Py_ssize_t modules;      /* how many there were when it was last looked whether trio is one */
    int has_trio;
    PyObject *loop_place;    /* the type */
    PyTypeObject *task_type; /* of the task that was seen last, */
    PyObject *cancelling;    /* and its method of that name */
    PyCFunction count;       /* what that calls, or NULL */
} State;

static struct PyModuleDef opening_module;

/* The clock. */

/* What the clock does on Linux, with the same rounding; negative elsewhere. */
static double
system_time(void)
{
#ifdef __linux__
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) == 0) {
        long long nanoseconds = (long long)now.tv_sec * 1000000000LL + now.tv_nsec;
        return (double)nanoseconds / 1e9;
    }
#endif
    return -1.0;
}

/* What a function without arguments calls; tools that move the clock in tests put another one there. */
static PyCFunction
behind(PyObject *function)
{
    int is_plain = PyCFunction_CheckExact(function) && PyCFunction_GET_FLAGS(function) == METH_NOARGS;
    return is_plain ? PyCFunction_GET_FUNCTION(function) : NULL;
}

static PyObject *
read_clock(State *state)
{
    if (state->shortcut != NULL && behind(state->monotonic) == state->shortcut) {
        return PyFloat_FromDouble(system_time());
    }
    return PyObject_CallNoArgs(state->monotonic);
}

/* Find the shortcut, unless the clock has been moved already. */
static int
find_shortcut(State *state)
{
    double before = system_time();
    PyObject *now = PyObject_CallNoArgs(state->monotonic);
    if (now == NULL) {
        return -1;
    }
    double told = PyFloat_AsDouble(now);
    Py_DECREF(now);
    if (PyErr_Occurred()) {
        return -1;
    }
    if (0.0 <= before && before <= told && told <= system_time()) {
        state->shortcut = behind(state->monotonic);
    }
    return 0;
}

/* Scopes. */

static int
is_scope(PyObject *scope)
{
    return PyList_CheckExact(scope) && PyList_GET_SIZE(scope) > STARTED;
}

/* Whether someone owns the retries of what is called here, or wants to be asked for the time: 1, 0, or -1 (error). */
static int
is_owned(State *state)
{
    PyObject *scope;
    if (state->current == NULL) {
        return 1; /* the module has been cleared, as happens at the very end */
    }
    if (PyContextVar_Get(state->current, NULL, &scope) < 0) {
        return -1;
    }
    if (scope == NULL) {
        return 0;
    }
    int owned = !is_scope(scope) || PyList_GET_ITEM(scope, OWNER) != Py_None;
    Py_DECREF(scope);
    return owned;
}

static int
enter(State *state, PyObject *scope)
{
    PyObject *now = read_clock(state);
    if (now == NULL) {
        return -1;
    }
    PyObject *before = PyList_GET_ITEM(scope, STARTED);
    PyList_SET_ITEM(scope, STARTED, now);
    Py_DECREF(before);
    PyObject *token = PyContextVar_Set(state->current, scope);
    if (token == NULL) {
        return -1;
    }
    Py_DECREF(token);
    return 0;
}

static PyObject *
refuse(PyObject *scope)
{
    return PyErr_Format(PyExc_TypeError, "a scope is a list [owner, started], not %R", scope);
}

static PyObject *
open_scope(PyObject *module, PyObject *scope)
{
    State *state = PyModule_GetState(module);
    if (!is_scope(scope)) {
        return refuse(scope);
    }
    int owned = is_owned(state);
    if (owned < 0) {
        return NULL;
    }
    if (owned) {
        Py_RETURN_FALSE;
    }
    if (enter(state, scope) < 0) {
        return NULL;
    }
    Py_RETURN_TRUE;
}

/* The place of a running call in an event loop. */

typedef struct {
    PyObject_HEAD
    PyObject *module; /* this one, */
    State *state;     /* and its state */
    PyObject *loop;
    unsigned long thread;
    PyObject *stepping;
    PyObject *running;
    PyObject *only;
    PyObject *task;
    PyObject *before;
    PyObject *more;
} LoopPlace;

static PyMemberDef place_members[] = {
    {"loop", T_OBJECT_EX, offsetof(LoopPlace, loop), 0, NULL},
    {"thread", T_ULONG, offsetof(LoopPlace, thread), 0, NULL},
    {"stepping", T_OBJECT_EX, offsetof(LoopPlace, stepping), 0, NULL},
    {"running", T_OBJECT_EX, offsetof(LoopPlace, running), 0, NULL},
    {"only", T_OBJECT_EX, offsetof(LoopPlace, only), 0, NULL},
    {"task", T_OBJECT_EX, offsetof(LoopPlace, task), 0, NULL},
    {"before", T_OBJECT_EX, offsetof(LoopPlace, before), 0, NULL},
    {"more", T_OBJECT_EX, offsetof(LoopPlace, more), 0, NULL},
    {NULL},
};

static int
place_traverse(LoopPlace *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->module);
    Py_VISIT(self->loop);
    Py_VISIT(self->stepping);
    Py_VISIT(self->running);
    Py_VISIT(self->only);
    Py_VISIT(self->task);
    Py_VISIT(self->before);
    Py_VISIT(self->more);
    return 0;
}

static int
place_clear(LoopPlace *self)
{
    Py_CLEAR(self->module);
    Py_CLEAR(self->loop);
    Py_CLEAR(self->stepping);
    Py_CLEAR(self->running);
    Py_CLEAR(self->only);
    Py_CLEAR(self->task);
    Py_CLEAR(self->before);
    Py_CLEAR(self->more);
    return 0;
}

static void
place_dealloc(LoopPlace *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    place_clear(self);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

/* Whether the place's loop is the one that runs here: 1, 0, or -1 (error). */
static int
runs_here(LoopPlace *self)
{
    PyObject *loop = PyObject_CallNoArgs(self->running);
    if (loop == NULL) {
        return -1;
    }
    Py_DECREF(loop);
    return loop == self->loop;
}

/* Whether trio runs this, though asyncio runs that: 1, 0, or -1 (error). */
static int
runs_in_trio(State *state)
{
    PyObject *modules = PyImport_GetModuleDict();
    if (PyDict_GET_SIZE(modules) != state->modules) {
        state->modules = PyDict_GET_SIZE(modules);
        state->has_trio = PyDict_GetItemString(modules, "trio") != NULL;
    }
    if (!state->has_trio) {
        return 0;
    }
    PyObject *answer = PyObject_CallNoArgs(state->under_trio);
    if (answer == NULL) {
        return -1;
    }
    int is_so = PyObject_IsTrue(answer);
    Py_DECREF(answer);
    return is_so;
}

/* The task in the middle of a step in the place's loop, where that is what runs this; else NULL, maybe with an error. */
static PyObject *
task_here(State *state, LoopPlace *self)
{
    PyObject *stepping = self->stepping, *loop, *task;
    Py_ssize_t place = 0;
    if (self->thread != PyThread_get_thread_ident() || self->loop == NULL || stepping == NULL || self->running == NULL) {
        return NULL;
    }
    if (PyDict_CheckExact(stepping) && PyDict_GET_SIZE(stepping) == 1 &&
        PyDict_Next(stepping, &place, &loop, &task)) {
        if (loop != self->loop) {
            return NULL;
        }
        Py_INCREF(task);
        if (runs_in_trio(state) != 0) {
            Py_CLEAR(task);
        }
        return task;
    }
    if (runs_here(self) != 1 || runs_in_trio(state) != 0) {
        return NULL;
    }
    task = PyObject_CallMethod(stepping, "get", "O", self->loop);
    if (task == Py_None) {
        Py_CLEAR(task);
    }
    return task;
}

/* The call stands in the place itself where that is free, else among the others. */
static int
put_in(LoopPlace *self, PyObject *scope, PyObject *task, PyObject *before)
{
    if (self->only == Py_None) {
        Py_INCREF(scope);
        Py_INCREF(task);
        Py_INCREF(before);
        Py_XSETREF(self->task, task);
        Py_XSETREF(self->before, before);
        Py_SETREF(self->only, scope);
        return 0;
    }
    if (self->only != NULL && is_scope(self->only) && self->more != NULL && PyDict_CheckExact(self->more)) {
        PyObject *key = PyLong_FromVoidPtr(scope);
        PyObject *entry = PyTuple_Pack(3, scope, task, before);
        int failed = key == NULL || entry == NULL || PyDict_SetItem(self->more, key, entry) < 0;
        Py_XDECREF(key);
        Py_XDECREF(entry);
        return failed ? -1 : 0;
    }
    PyObject *done = PyObject_CallMethod((PyObject *)self, "wake_up", "OOO", scope, task, before);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* task.cancelling(), without asking for the method each time. */
static PyObject *
count_cancellations(State *state, PyObject *task)
{
    if (Py_TYPE(task) != state->task_type) {
        PyObject *method = PyObject_GetAttrString((PyObject *)Py_TYPE(task), "cancelling");
        if (method == NULL) {
            return NULL;
        }
        Py_INCREF(Py_TYPE(task));
        Py_XSETREF(state->task_type, Py_TYPE(task));
        Py_XSETREF(state->cancelling, method);
        state->count = NULL;
        if (Py_IS_TYPE(method, &PyMethodDescr_Type)) {
            PyMethodDef *definition = ((PyMethodDescrObject *)method)->d_method;
            state->count = definition->ml_flags == METH_NOARGS ? definition->ml_meth : NULL;
        }
    }
    return state->count != NULL ? state->count(task, NULL) : PyObject_CallOneArg(state->cancelling, task);
}

static PyObject *
place_open(LoopPlace *self, PyObject *scope)
{
    State *state = self->state;
    if (!is_scope(scope)) {
        return refuse(scope);
    }
    int owned = self->module == NULL ? 1 : is_owned(state);
    if (owned < 0) {
        return NULL;
    }
    PyObject *task = owned ? NULL : task_here(state, self);
    if (task == NULL) {
        if (PyErr_Occurred()) {
            return NULL;
        }
        Py_RETURN_FALSE;
    }
    PyObject *before = count_cancellations(state, task);
    int failed = before == NULL || enter(state, scope) < 0 || put_in(self, scope, task, before) < 0;
    Py_XDECREF(before);
    Py_DECREF(task);
    if (failed) {
        return NULL;
    }
    Py_RETURN_TRUE;
}

static PyObject *
place_new(PyTypeObject *type, PyObject *args, PyObject *names)
{
    PyObject *module = PyType_GetModuleByDef(type, &opening_module);
    if (module == NULL) {
        return NULL;
    }
    LoopPlace *self = (LoopPlace *)type->tp_alloc(type, 0);
    if (self != NULL) {
        Py_INCREF(module);
        self->module = module;
        self->state = PyModule_GetState(module);
    }
    return (PyObject *)self;
}

static PyMethodDef place_methods[] = {
    {"open", (PyCFunction)place_open, METH_O, NULL},
    {NULL},
};

static PyType_Slot place_slots[] = {
    {Py_tp_members, place_members},
    {Py_tp_traverse, place_traverse},
    {Py_tp_clear, place_clear},
    {Py_tp_dealloc, place_dealloc},
    {Py_tp_methods, place_methods},
    {Py_tp_new, place_new},
    {0, NULL},
};

static PyType_Spec place_spec = {
    .name = "redrive.calls._opening.LoopPlace",
    .basicsize = sizeof(LoopPlace),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = place_slots,
};

/* The module. */

static PyObject *
attribute_of(const char *module_name, const char *name)
{
    PyObject *module = PyImport_ImportModule(module_name);
    if (module == NULL) {
        return NULL;
    }
    PyObject *found = PyObject_GetAttrString(module, name);
    Py_DECREF(module);
    return found;
}

static PyObject *
monotonic_of_the_system(void)
{
    PyObject *clock = attribute_of("redrive.determinism.clock", "SYSTEM_CLOCK");
    if (clock == NULL) {
        return NULL;
    }
    PyObject *monotonic = PyObject_GetAttrString(clock, "monotonic");
    Py_DECREF(clock);
    return monotonic;
}

static int
opening_exec(PyObject *module)
{
    State *state = PyModule_GetState(module);
    if ((state->current = attribute_of("redrive.calls.scope", "CURRENT")) == NULL ||
        (state->monotonic = monotonic_of_the_system()) == NULL ||
        find_shortcut(state) < 0 ||
        (state->under_trio = attribute_of("redrive.determinism.event_loops", "under_trio")) == NULL ||
        (state->loop_place = PyType_FromModuleAndSpec(module, &place_spec, NULL)) == NULL) {
        return -1;
    }
    if (!PyContextVar_CheckExact(state->current)) {
        PyErr_SetString(PyExc_TypeError, "redrive.calls.scope.CURRENT is no context variable");
        return -1;
    }
    return PyModule_AddObjectRef(module, "LoopPlace", state->loop_place);
}

static int
opening_traverse(PyObject *module, visitproc visit, void *arg)
{
    State *state = PyModule_GetState(module);
    Py_VISIT(state->current);
    Py_VISIT(state->monotonic);
    Py_VISIT(state->under_trio);
    Py_VISIT(state->loop_place);
    Py_VISIT(state->task_type);
    Py_VISIT(state->cancelling);
    return 0;
}

static int
opening_clear(PyObject *module)
{
    State *state = PyModule_GetState(module);
    Py_CLEAR(state->current);
    Py_CLEAR(state->monotonic);
    Py_CLEAR(state->under_trio);
    Py_CLEAR(state->loop_place);
    Py_CLEAR(state->task_type);
    Py_CLEAR(state->cancelling);
    return 0;
}

static void
opening_free(void *module)
{
    opening_clear((PyObject *)module);
}

static PyMethodDef opening_methods[] = {
    {"open_scope", open_scope, METH_O, NULL},
    {NULL},
};

static PyModuleDef_Slot opening_slots[] = {
    {Py_mod_exec, opening_exec},
    {0, NULL},
};

static struct PyModuleDef opening_module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "redrive.calls._opening",
    .m_size = sizeof(State),
    .m_methods = opening_methods,
    .m_slots = opening_slots,
    .m_traverse = opening_traverse,
    .m_clear = opening_clear,
    .m_free = opening_free,
};

PyMODINIT_FUNC
PyInit__opening(void)
{
    return PyModuleDef_Init(&opening_module);
}
