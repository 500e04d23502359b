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
    PyObject *clock;         /* determinism.clock.SYSTEM_CLOCK */
    PyObject *loop_place;    /* the type */
    PyTypeObject *task_type; /* of the task that was seen last, */
    PyObject *cancelling;    /* and its method of that name */
} State;

static struct PyModuleDef opening_module;

/* The clock. */

static PyObject *
read_clock(State *state)
{
#ifdef __linux__
    /* What its clock does here, with the same rounding. */
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) == 0) {
        long long nanoseconds = (long long)now.tv_sec * 1000000000LL + now.tv_nsec;
        return PyFloat_FromDouble((double)nanoseconds / 1e9);
    }
#endif
    return PyObject_CallMethod(state->clock, "monotonic", NULL);
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
    PyObject *module; /* this one: its state is asked for at each call */
    PyObject *loop;
    PyObject *thread;
    PyObject *stepping;
    PyObject *only;
    PyObject *task;
    PyObject *before;
    PyObject *more;
} LoopPlace;

static PyMemberDef place_members[] = {
    {"loop", T_OBJECT_EX, offsetof(LoopPlace, loop), 0, NULL},
    {"thread", T_OBJECT_EX, offsetof(LoopPlace, thread), 0, NULL},
    {"stepping", T_OBJECT_EX, offsetof(LoopPlace, stepping), 0, NULL},
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
    Py_VISIT(self->thread);
    Py_VISIT(self->stepping);
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
    Py_CLEAR(self->thread);
    Py_CLEAR(self->stepping);
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

/* The task in the middle of a step in the place's loop, where this thread runs that; else NULL, maybe with an error. */
static PyObject *
task_here(LoopPlace *self)
{
    if (self->loop == NULL || self->thread == NULL || !PyLong_CheckExact(self->thread) || self->stepping == NULL) {
        return NULL;
    }
    unsigned long thread = PyLong_AsUnsignedLong(self->thread);
    if (thread != PyThread_get_thread_ident()) {
        return NULL; /* with an error where the number is none of a thread's */
    }
    if (PyDict_CheckExact(self->stepping)) {
        PyObject *task = PyDict_GetItemWithError(self->stepping, self->loop);
        Py_XINCREF(task);
        return task;
    }
    PyObject *task = PyObject_CallMethod(self->stepping, "get", "O", self->loop);
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
    }
    return PyObject_CallOneArg(state->cancelling, task);
}

static PyObject *
place_open(LoopPlace *self, PyObject *scope)
{
    State *state = PyModule_GetState(self->module);
    if (!is_scope(scope)) {
        return refuse(scope);
    }
    int owned = is_owned(state);
    if (owned < 0) {
        return NULL;
    }
    PyObject *task = owned ? NULL : task_here(self);
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

static int
opening_exec(PyObject *module)
{
    State *state = PyModule_GetState(module);
    if ((state->current = attribute_of("redrive.calls.scope", "CURRENT")) == NULL ||
        (state->clock = attribute_of("redrive.determinism.clock", "SYSTEM_CLOCK")) == NULL ||
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
    Py_VISIT(state->clock);
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
    Py_CLEAR(state->clock);
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
