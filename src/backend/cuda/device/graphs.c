/* graphs.c - what the compute stream is given, kept as CUDA graphs. Part of the CUDA object.
 *
 * While a stretch is captured no number is written behind its operations: a replay would write it
 * again. A graph is one entry of the log, and its number is written behind it. With several ranks
 * a graph stands in the queue before the compute stream like a launch (issue.h): no message is in
 * one, so nothing of it waits for another rank. */
#include <stdlib.h>

#include "backend/cuda/device/gpu.h"

static void drop(gpu_state *g)
{
    for (int i = 0; i < g->n_graphs; i++)
        if (g->graphs[i]) cudaGraphExecDestroy(g->graphs[i]);
    free(g->graphs);
    g->graphs = NULL;
    g->n_graphs = 0;
}

void gpu_close_graphs(gpu_state *g)
{
    drop(g);
}

status gpu_graphs(device *d, int n, error *err)
{
    gpu_state *g = gpu_of(d);
    drop(g);
    g->graphs = calloc((size_t)n + 1, sizeof *g->graphs);
    if (!g->graphs) return error_set(err, ERR_MACHINE, "no host memory for %d graphs", n);
    g->n_graphs = n;
    return OK;
}

void gpu_capture(device *d, int graph)
{
    gpu_state *g = gpu_of(d);
    (void)graph;
    issue_all(d);
    gpu_check(d,
              cudaStreamBeginCapture(g->streams[STREAM_COMPUTE], cudaStreamCaptureModeThreadLocal),
              "beginning a graph");
    g->capturing = true;
}

int gpu_captured(device *d, int graph)
{
    gpu_state *g = gpu_of(d);
    cudaGraph_t made = NULL;
    size_t nodes = 0;
    g->capturing = false;
    gpu_check(d, cudaStreamEndCapture(g->streams[STREAM_COMPUTE], &made), "ending a graph");
    gpu_check(d, cudaGraphGetNodes(made, NULL, &nodes), "counting a graph's nodes");
    gpu_check(d, cudaGraphInstantiate(&g->graphs[graph], made, 0), "instantiating a graph");
    gpu_check(d, cudaGraphUpload(g->graphs[graph], g->streams[STREAM_COMPUTE]),
              "uploading a graph");
    cudaGraphDestroy(made);
    return (int)nodes;
}

void gpu_replay(device *d, int graph, const op *o, uint32_t number)
{
    gpu_state *g = gpu_of(d);
    gpu_check(d, cudaGraphLaunch(g->graphs[graph], g->streams[STREAM_COMPUTE]), o->name);
    gpu_end(d, STREAM_COMPUTE, o, number);
}
