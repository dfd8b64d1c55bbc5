package check

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// known are the kinds of the manifests. Those of cert-manager and kustomize have no types in k8s.io/api.
func known(kind string) any {
	switch kind {
	case "v1 Namespace":
		return new(corev1.Namespace)
	case "v1 ConfigMap":
		return new(corev1.ConfigMap)
	case "v1 Secret":
		return new(corev1.Secret)
	case "v1 Service":
		return new(corev1.Service)
	case "apps/v1 StatefulSet":
		return new(appsv1.StatefulSet)
	case "apps/v1 Deployment":
		return new(appsv1.Deployment)
	case "policy/v1 PodDisruptionBudget":
		return new(policyv1.PodDisruptionBudget)
	case "networking.k8s.io/v1 NetworkPolicy":
		return new(networkingv1.NetworkPolicy)
	}
	return nil
}

// manifests decodes all manifests strictly: an unknown or repeated key is a mistake.
func manifests(t *testing.T) map[string]any {
	t.Helper()
	files, err := filepath.Glob("../kubernetes/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no manifests: %v", err)
	}
	all := make(map[string]any)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, document := range bytes.Split(text, []byte("\n---\n")) {
			var head struct {
				metav1.TypeMeta `json:",inline"`

				Metadata metav1.ObjectMeta `json:"metadata"`
			}
			if err := yaml.Unmarshal(document, &head); err != nil {
				t.Fatalf("%s, document %d: %v", file, i+1, err)
			}
			kind := head.APIVersion + " " + head.Kind
			object := known(kind)
			if object == nil {
				if !strings.HasPrefix(kind, "cert-manager.io/v1 ") && !strings.HasPrefix(kind, "kustomize.config.k8s.io/") {
					t.Errorf("%s: %s is of no known kind", file, kind)
				}
				continue
			}
			if err := yaml.UnmarshalStrict(document, object); err != nil {
				t.Errorf("%s, document %d: %v", file, i+1, err)
			}
			if head.Metadata.Namespace != "holter" && head.Kind != "Namespace" {
				t.Errorf("%s: %s is in the namespace %q", file, head.Metadata.Name, head.Metadata.Namespace)
			}
			all[head.Kind+"/"+head.Metadata.Name] = object
		}
	}
	return all
}

// pods are what the two kinds of processes run in.
func pods(t *testing.T) map[string]corev1.PodTemplateSpec {
	t.Helper()
	all := manifests(t)
	return map[string]corev1.PodTemplateSpec{
		"judge": all["StatefulSet/holter"].(*appsv1.StatefulSet).Spec.Template,
		"ear":   all["Deployment/holter-ear"].(*appsv1.Deployment).Spec.Template,
	}
}

// TestRestricted: the pods may run where the restricted standard of pod security is enforced.
func TestRestricted(t *testing.T) {
	for name, pod := range pods(t) {
		p, c := pod.Spec.SecurityContext, pod.Spec.Containers[0].SecurityContext
		if p.RunAsNonRoot == nil || !*p.RunAsNonRoot || p.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault ||
			c.AllowPrivilegeEscalation == nil || *c.AllowPrivilegeEscalation || !slices.Equal(c.Capabilities.Drop, []corev1.Capability{"ALL"}) ||
			c.ReadOnlyRootFilesystem == nil || !*c.ReadOnlyRootFilesystem || pod.Spec.AutomountServiceAccountToken == nil || *pod.Spec.AutomountServiceAccountToken {
			t.Errorf("%s: %+v, %+v", name, p, c)
		}
	}
}

// TestProbes: nothing restarts a process because it is not ready, a standby does not hold up an update, and an ear
// without a judge gets no devices.
func TestProbes(t *testing.T) {
	for name, ready := range map[string]string{"judge": "/healthz", "ear": "/readyz"} {
		c := pods(t)[name].Spec.Containers[0]
		if c.LivenessProbe.HTTPGet.Path != "/healthz" || c.ReadinessProbe.HTTPGet.Path != ready || c.StartupProbe != nil {
			t.Errorf("%s: liveness %v, readiness %v", name, c.LivenessProbe.HTTPGet, c.ReadinessProbe.HTTPGet)
		}
		for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe} {
			if !slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == probe.HTTPGet.Port.StrVal }) {
				t.Errorf("%s: there is no port %s", name, probe.HTTPGet.Port.String())
			}
		}
	}
}

// settings are those of one file of the ConfigMap that are looked at here. The test of internal/config reads them all.
type settings struct {
	Judges []string `json:"judges"`
	Drain  struct {
		Delay metav1.Duration `json:"delay"`
		Limit metav1.Duration `json:"limit"`
	} `json:"drain"`
}

// TestGrace: an ear has the time that it takes to drain, and looks for every judge that there is.
func TestGrace(t *testing.T) {
	all := manifests(t)
	var s settings
	if err := yaml.Unmarshal([]byte(all["ConfigMap/holter"].(*corev1.ConfigMap).Data["ear.yaml"]), &s); err != nil {
		t.Fatal(err)
	}
	drain := int64((s.Drain.Delay.Duration + s.Drain.Limit.Duration).Seconds())
	if grace := pods(t)["ear"].Spec.TerminationGracePeriodSeconds; grace == nil || *grace < drain+10 || drain == 0 {
		t.Errorf("an ear has %v s to drain for %d s", grace, drain)
	}
	set, want := all["StatefulSet/holter"].(*appsv1.StatefulSet), []string(nil)
	for i := range *set.Spec.Replicas {
		want = append(want, fmt.Sprintf("%s-%d.%s:7710", set.Name, i, set.Spec.ServiceName))
	}
	if !slices.Equal(s.Judges, want) {
		t.Errorf("the ears look for %v, want %v", s.Judges, want)
	}
	if all["Service/"+set.Spec.ServiceName].(*corev1.Service).Spec.ClusterIP != corev1.ClusterIPNone {
		t.Error("the names of single servers need a headless service")
	}
}

// TestSelectors: every service, budget and policy selects the pods of one kind, and every port that is named exists.
func TestSelectors(t *testing.T) {
	selects := func(selector map[string]string) (found []string) {
		for name, pod := range pods(t) {
			if labels.SelectorFromSet(selector).Matches(labels.Set(pod.Labels)) {
				found = append(found, name)
			}
		}
		return found
	}
	seen := 0
	for name, object := range manifests(t) {
		var selector map[string]string
		switch o := object.(type) {
		case *corev1.Service:
			selector = o.Spec.Selector
		case *policyv1.PodDisruptionBudget:
			selector = o.Spec.Selector.MatchLabels
		case *networkingv1.NetworkPolicy:
			selector = o.Spec.PodSelector.MatchLabels
		default:
			continue
		}
		seen++
		if found := selects(selector); len(found) != 1 {
			t.Errorf("%s selects the pods of %v", name, found)
		}
	}
	if seen != 7 {
		t.Errorf("%d objects select pods, want 7", seen)
	}
}

// TestVolumes: every mounted volume exists, and every secret that is named has an example or a certificate.
func TestVolumes(t *testing.T) {
	text, err := os.ReadFile("../kubernetes/certificates.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all := manifests(t)
	for name, pod := range pods(t) {
		have := map[string]bool{"data": name == "judge"} // by the claim
		for _, v := range pod.Spec.Volumes {
			have[v.Name] = true
			if v.Secret == nil {
				continue
			}
			if all["Secret/"+v.Secret.SecretName] == nil && !strings.Contains(string(text), "secretName: "+v.Secret.SecretName+"\n") {
				t.Errorf("%s: nothing makes the secret %s", name, v.Secret.SecretName)
			}
		}
		for _, m := range pod.Spec.Containers[0].VolumeMounts {
			if !have[m.Name] {
				t.Errorf("%s: there is no volume %s", name, m.Name)
			}
		}
	}
}
